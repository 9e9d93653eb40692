//! The kernels, written once for every instruction set.
//!
//! `kernels!` takes the attribute that enables an instruction set. It expands in a module that defines `Words` (`WORDS`
//! residues), `Half` (half of them, as factors), `Wide` (as many 64-bit lanes) and operations between them. The kernels
//! process whole registers; the scalar reference handles the rest. The callers in [`super`] check that operand slices
//! have equal lengths.
//!
//! The loops use no closures: called from library code, a closure would be compiled without the instruction set and not
//! inlined.

macro_rules! kernels {
    ($instructions:meta) => {
        /// Barrett's constants in every lane.
        #[derive(Clone, Copy)]
        struct Barrett {
            q: Half,
            q_words: Words,
            barrett: Half,
            low_shift: Shift,
            high_shift: Shift,
        }

        impl Barrett {
            #[$instructions]
            #[inline]
            fn new(q: &Modulus) -> Self {
                Self {
                    q: half(q.value()),
                    q_words: words(q.value()),
                    barrett: half(q.barrett()),
                    low_shift: shift(q.bits() - 1),
                    high_shift: shift(q.bits() + 1),
                }
            }

            /// Reduces two registers of values below `2^(2·bits)` to residues, as [`Modulus::mul`].
            #[$instructions]
            #[inline]
            fn residues(self, first: Wide, second: Wide) -> Words {
                let r = join(self.remainder(first), self.remainder(second));
                self.subtract_if_reached(self.subtract_if_reached(r))
            }

            /// Returns a remainder below `3q` in every lane.
            #[$instructions]
            #[inline]
            fn remainder(self, x: Wide) -> Wide {
                let estimate = multiply_halves(low(shift_right(x, self.low_shift)), self.barrett);
                let quotient = low(shift_right(estimate, self.high_shift));
                subtract_wide(x, multiply_halves(quotient, self.q))
            }

            #[$instructions]
            #[inline]
            fn subtract_if_reached(self, r: Words) -> Words {
                minimum(r, subtract(r, self.q_words))
            }

            #[$instructions]
            #[inline]
            fn multiply(self, a: Words, b: Words) -> Words {
                let ((a0, a1), (b0, b1)) = (split(a), split(b));
                self.residues(multiply_halves(a0, b0), multiply_halves(a1, b1))
            }
        }

        /// The length of the part that fills whole registers.
        fn whole(length: usize) -> usize {
            length / WORDS * WORDS
        }

        #[$instructions]
        pub(super) fn multiply(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
            let barrett = Barrett::new(q);
            let whole = whole(out.len());
            for ((r, x), y) in out
                .chunks_exact_mut(WORDS)
                .zip(a.chunks_exact(WORDS))
                .zip(b.chunks_exact(WORDS))
            {
                store(r, barrett.multiply(load(x), load(y)));
            }
            scalar::multiply(q, &a[whole..], &b[whole..], &mut out[whole..]);
        }

        #[$instructions]
        pub(super) fn multiply_add(q: &Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
            let barrett = Barrett::new(q);
            let whole = whole(out.len());
            for ((r, x), y) in out
                .chunks_exact_mut(WORDS)
                .zip(a.chunks_exact(WORDS))
                .zip(b.chunks_exact(WORDS))
            {
                let sum = add(load(r), barrett.multiply(load(x), load(y)));
                store(r, barrett.subtract_if_reached(sum));
            }
            scalar::multiply_add(q, &a[whole..], &b[whole..], &mut out[whole..]);
        }

        #[$instructions]
        pub(super) fn subtract_product(q: &Modulus, a: &mut [u32], b: &[u32], c: &[u32]) {
            let barrett = Barrett::new(q);
            let whole = whole(a.len());
            for ((r, x), y) in a
                .chunks_exact_mut(WORDS)
                .zip(b.chunks_exact(WORDS))
                .zip(c.chunks_exact(WORDS))
            {
                let difference = subtract(load(r), barrett.multiply(load(x), load(y)));
                store(r, minimum(difference, add(difference, barrett.q_words)));
            }
            scalar::subtract_product(q, &mut a[whole..], &b[whole..], &c[whole..]);
        }

        #[$instructions]
        pub(super) fn accumulate_products(pairs: &[(&[u32], &[u32])], accumulator: &mut [u64]) {
            match *pairs {
                [] => {}
                [p0] => products_of([p0], accumulator),
                [p0, p1] => products_of([p0, p1], accumulator),
                [p0, p1, p2] => products_of([p0, p1, p2], accumulator),
                [p0, p1, p2, p3, ref more @ ..] => {
                    products_of([p0, p1, p2, p3], accumulator);
                    accumulate_products(more, accumulator);
                }
            }
        }

        /// Passes over the accumulator once for all pairs. Within a register its order is that of `split`.
        #[$instructions]
        #[inline]
        fn products_of<const PAIRS: usize>(
            mut pairs: [(&[u32], &[u32]); PAIRS],
            accumulator: &mut [u64],
        ) {
            let length = accumulator.len();
            for (a, b) in &mut pairs {
                (*a, *b) = (&a[..length], &b[..length]);
            }
            let mut i = 0;
            while i + WORDS <= length {
                let (first, second) = accumulator[i..i + WORDS].split_at_mut(WORDS / 2);
                let (mut low, mut high) = (load_wide(first), load_wide(second));
                for (a, b) in pairs {
                    let (a0, a1) = split(load(&a[i..i + WORDS]));
                    let (b0, b1) = split(load(&b[i..i + WORDS]));
                    low = add_wide(low, multiply_halves(a0, b0));
                    high = add_wide(high, multiply_halves(a1, b1));
                }
                store_wide(first, low);
                store_wide(second, high);
                i += WORDS;
            }
            for (a, b) in pairs {
                scalar::accumulate_products(&[(&a[i..], &b[i..])], &mut accumulator[i..]);
            }
        }

        #[$instructions]
        pub(super) fn reduce_into(q: &Modulus, accumulator: &[u64], out: &mut [u32]) {
            if q.bits() < super::WIDE_REDUCTION_BITS {
                for (sums, r) in accumulator
                    .chunks_exact(WORDS)
                    .zip(out.chunks_exact_mut(WORDS))
                {
                    let mut residues = [0; WORDS];
                    scalar::reduce_into(q, sums, &mut residues);
                    let (first, second) = residues.split_at(WORDS / 2);
                    store(r, join(widen(first), widen(second)));
                }
            } else {
                let barrett = Barrett::new(q);
                let base = half(q.reduce(1 << 32));
                for (sums, r) in accumulator
                    .chunks_exact(WORDS)
                    .zip(out.chunks_exact_mut(WORDS))
                {
                    let (first, second) = sums.split_at(WORDS / 2);
                    let first = fold(load_wide(first), base);
                    let second = fold(load_wide(second), base);
                    store(r, barrett.residues(first, second));
                }
            }
            let whole = whole(out.len());
            scalar::reduce_into(q, &accumulator[whole..], &mut out[whole..]);
        }

        /// Reduces any sums to congruent values below 2^53, given `2^32 mod q` below 2^28. The bounds after each line
        /// are 2^60 + 2^32, 2^56 + 2^32 and 2^52 + 2^32.
        #[$instructions]
        #[inline]
        fn fold(x: Wide, base: Half) -> Wide {
            let x = add_wide(multiply_halves(high(x), base), low_words(x));
            let x = add_wide(multiply_halves(high(x), base), low_words(x));
            add_wide(multiply_halves(high(x), base), low_words(x))
        }

        /// Computes a register tile: every prefix with every leaf, each loaded once. The sums of consecutive prefixes
        /// are `stride` apart.
        #[$instructions]
        #[inline]
        fn tile<const PREFIXES: usize, const LEAVES: usize>(
            prefixes: [&[u32]; PREFIXES],
            leaves: [&[u32]; LEAVES],
            (sums, stride): (&mut [Sum], usize),
            ahead: Option<[&[u32]; AHEAD]>,
        ) {
            let length = prefixes[0].len();
            let (prefixes, leaves) = (cut(prefixes, length), cut(leaves, length));
            let ahead = in_bounds(ahead, prefixes[0]);
            let mut i = 0;
            while i + WORDS <= length {
                // Both halves of a register are added to the same lanes, unless the tile has so few that consecutive
                // additions would stall.
                let mut lanes = [[zero(); PREFIXES]; LEAVES];
                let mut more_lanes = lanes;
                let few = PREFIXES * LEAVES <= 2;
                let end = whole(length.min(i + LAZY_SUMS * WORDS / 2));
                while i + WORDS <= end {
                    ask_for(ahead, i);
                    let mut halves = [split(load(&prefixes[0][i..i + WORDS])); PREFIXES];
                    for p in 1..PREFIXES {
                        halves[p] = split(load(&prefixes[p][i..i + WORDS]));
                    }
                    // Unrolled by hand: the compiler does not unroll a loop of four, and then spills all lanes to
                    // memory.
                    if few {
                        for l in 0..LEAVES {
                            let y = split(load(&leaves[l][i..i + WORDS]));
                            for p in 0..PREFIXES {
                                let (x0, x1) = halves[p];
                                lanes[l][p] = add_wide(lanes[l][p], multiply_halves(x0, y.0));
                                more_lanes[l][p] =
                                    add_wide(more_lanes[l][p], multiply_halves(x1, y.1));
                            }
                        }
                    } else {
                        if LEAVES > 0 {
                            add_leaf(&mut lanes[0], &halves, &leaves[0][i..i + WORDS]);
                        }
                        if LEAVES > 1 {
                            add_leaf(&mut lanes[1], &halves, &leaves[1][i..i + WORDS]);
                        }
                        if LEAVES > 2 {
                            add_leaf(&mut lanes[2], &halves, &leaves[2][i..i + WORDS]);
                        }
                        if LEAVES > 3 {
                            add_leaf(&mut lanes[3], &halves, &leaves[3][i..i + WORDS]);
                        }
                    }
                    i += WORDS;
                }
                for p in 0..PREFIXES {
                    let (mut low, mut high) = ([zero(); super::LEAVES], [zero(); super::LEAVES]);
                    for l in 0..LEAVES {
                        (low[l], high[l]) = (low_words(lanes[l][p]), high_words(lanes[l][p]));
                        if few {
                            low[l] = add_wide(low[l], low_words(more_lanes[l][p]));
                            high[l] = add_wide(high[l], high_words(more_lanes[l][p]));
                        }
                    }
                    let (low, high) = (totals(low), totals(high));
                    for l in 0..LEAVES {
                        sums[p * stride + l] += Sum {
                            low: low[l],
                            high: high[l],
                        };
                    }
                }
            }
            if i < length {
                for p in 0..PREFIXES {
                    let (leaves, sums) = (leaves.map(|x| &x[i..]), &mut sums[p * stride..]);
                    scalar::dots(&[&prefixes[p][i..]], &leaves, sums, &[]);
                }
            }
        }

        /// Adds the products of a register of a leaf with those of all prefixes.
        #[$instructions]
        #[inline]
        fn add_leaf<const PREFIXES: usize>(
            lanes: &mut [Wide; PREFIXES],
            halves: &[(Half, Half); PREFIXES],
            leaf: &[u32],
        ) {
            let y = split(load(leaf));
            for p in 0..PREFIXES {
                add_product(&mut lanes[p], halves[p], y);
            }
        }

        #[$instructions]
        #[inline]
        fn add_product(lanes: &mut Wide, x: (Half, Half), y: (Half, Half)) {
            *lanes = add_wide(*lanes, multiply_halves(x.0, y.0));
            *lanes = add_wide(*lanes, multiply_halves(x.1, y.1));
        }

        /// The first `length` residues of each slice.
        #[inline]
        fn cut<const N: usize>(slices: [&[u32]; N], length: usize) -> [&[u32]; N] {
            slices.map(|slice| &slice[..length])
        }

        /// Returns as many residues of each slice to prefetch, or `here` in place of a shorter slice; `None` without
        /// slices.
        #[inline]
        fn in_bounds<'a>(
            ahead: Option<[&'a [u32]; AHEAD]>,
            here: &'a [u32],
        ) -> Option<[&'a [u32]; AHEAD]> {
            ahead.map(|ahead| ahead.map(|slice| slice.get(..here.len()).unwrap_or(here)))
        }

        #[$instructions]
        #[inline]
        fn ask_for(ahead: Option<[&[u32]; AHEAD]>, i: usize) {
            for slice in ahead.into_iter().flatten() {
                super::prefetch_line(&slice[i..]);
            }
        }

        /// The next slices to prefetch.
        #[inline]
        fn take_ahead<'a>(ahead: &mut &[&'a [u32]]) -> Option<[&'a [u32]; AHEAD]> {
            let (now, later) = ahead.split_at(AHEAD.min(ahead.len()));
            *ahead = later;
            let slices = std::array::from_fn(|i| now.get(i).copied().unwrap_or_default());
            (!now.is_empty()).then_some(slices)
        }

        /// Splits the work into tiles of as many prefixes and leaves as fit into registers.
        #[$instructions]
        pub(super) fn dots(
            prefixes: &[&[u32]],
            leaves: &[&[u32]],
            sums: &mut [Sum],
            mut ahead: &[&[u32]],
        ) {
            let stride = leaves.len();
            for (prefixes, sums) in prefixes
                .chunks(TILE_PREFIXES)
                .zip(sums.chunks_mut(TILE_PREFIXES * stride))
            {
                for (i, leaves) in leaves.chunks(super::LEAVES).enumerate() {
                    let sums = (&mut sums[i * super::LEAVES..], stride);
                    let ahead = take_ahead(&mut ahead);
                    match *prefixes {
                        [a] => with_leaves([a], leaves, sums, ahead),
                        [a, b] => with_leaves([a, b], leaves, sums, ahead),
                        [a, b, c] => with_leaves([a, b, c], leaves, sums, ahead),
                        [a, b, c, d] => with_leaves([a, b, c, d], leaves, sums, ahead),
                        _ => unreachable!("tiles have one to four prefixes"),
                    }
                }
            }
        }

        #[$instructions]
        #[inline]
        fn with_leaves<const PREFIXES: usize>(
            prefixes: [&[u32]; PREFIXES],
            leaves: &[&[u32]],
            sums: (&mut [Sum], usize),
            ahead: Option<[&[u32]; AHEAD]>,
        ) {
            match *leaves {
                [] => {}
                [a] => tile(prefixes, [a], sums, ahead),
                [a, b] => tile(prefixes, [a, b], sums, ahead),
                [a, b, c] => tile(prefixes, [a, b, c], sums, ahead),
                [a, b, c, d] => tile(prefixes, [a, b, c, d], sums, ahead),
                _ => unreachable!("a tile has at most four leaves"),
            }
        }

        /// Computes the tile on the diagonal: each of four operands with those after it.
        #[$instructions]
        pub(super) fn pairs(
            operands: [&[u32]; super::LEAVES],
            sums: &mut [Sum; super::PAIRS],
            mut ahead: &[&[u32]],
        ) {
            let length = operands[0].len();
            let operands = cut(operands, length);
            let ahead = in_bounds(take_ahead(&mut ahead), operands[0]);
            let mut i = 0;
            while i + WORDS <= length {
                let mut lanes = [zero(); super::PAIRS];
                let end = whole(length.min(i + LAZY_SUMS * WORDS / 2));
                while i + WORDS <= end {
                    ask_for(ahead, i);
                    let a = split(load(&operands[0][i..i + WORDS]));
                    let b = split(load(&operands[1][i..i + WORDS]));
                    let c = split(load(&operands[2][i..i + WORDS]));
                    let d = split(load(&operands[3][i..i + WORDS]));
                    add_product(&mut lanes[0], a, b);
                    add_product(&mut lanes[1], a, c);
                    add_product(&mut lanes[2], a, d);
                    add_product(&mut lanes[3], b, c);
                    add_product(&mut lanes[4], b, d);
                    add_product(&mut lanes[5], c, d);
                    i += WORDS;
                }
                for (lanes, sum) in lanes.into_iter().zip(&mut *sums) {
                    let (low, high) = (total(low_words(lanes)), total(high_words(lanes)));
                    *sum += Sum { low, high };
                }
            }
            scalar::pairs(operands.map(|x| &x[i..]), sums, &[]);
        }
    };
}
pub(super) use kernels;
