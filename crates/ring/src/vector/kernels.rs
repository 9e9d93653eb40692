//! The kernels, written once for every instruction set.
//!
//! `kernels!`, given the attribute that enables an instruction set, expands in a module that defines `Words` (`WORDS`
//! residues), `Half` (half of them, ready to be multiplied), `Wide` (as many 64-bit lanes) and
//! a handful of operations between them. Whole registers are worked on here; what remains
//! goes to the scalar reference. Operand slices have equal lengths, which the callers in
//! [`super`] check.
//!
//! Closures would be compiled without the instruction set where library code calls them, and
//! then called, not inlined: hence the plain loops.

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

            /// Two registers of values below `2^(2·bits)` to residues; as [`Modulus::mul`].
            #[$instructions]
            #[inline]
            fn residues(self, first: Wide, second: Wide) -> Words {
                let r = join(self.remainder(first), self.remainder(second));
                self.subtract_if_reached(self.subtract_if_reached(r))
            }

            /// Less than `3q` in every lane.
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

        /// The length of the part that whole registers cover.
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

        /// One pass of the accumulator for all pairs. Within a register its order is that of
        /// `split`.
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

        /// Any sums to values below 2^53 of the same residue, given `2^32 mod q` below 2^28:
        /// bounds are 2^60 + 2^32, 2^56 + 2^32 and 2^52 + 2^32 after each line.
        #[$instructions]
        #[inline]
        fn fold(x: Wide, base: Half) -> Wide {
            let x = add_wide(multiply_halves(high(x), base), low_words(x));
            let x = add_wide(multiply_halves(high(x), base), low_words(x));
            add_wide(multiply_halves(high(x), base), low_words(x))
        }

        #[$instructions]
        pub(super) fn wrapping_dot(a: &[i32], b: &[i32]) -> u64 {
            let whole = whole(a.len());
            let (mut first, mut second) = (zero(), zero());
            for (x, y) in a.chunks_exact(WORDS).zip(b.chunks_exact(WORDS)) {
                let (x0, x1) = split(load_signed(x));
                let (y0, y1) = split(load_signed(y));
                first = add_wide(first, multiply_signed_halves(x0, y0));
                second = add_wide(second, multiply_signed_halves(x1, y1));
            }
            let sum = total(add_wide(first, second));
            sum.wrapping_add(scalar::wrapping_dot(&a[whole..], &b[whole..]))
        }

        /// The register tile: every prefix with every leaf, each loaded once.
        #[$instructions]
        #[inline]
        fn tile<const PREFIXES: usize, const LEAVES: usize>(
            mut prefixes: [&[u32]; PREFIXES],
            mut leaves: [&[u32]; LEAVES],
            sums: &mut [[Sum; super::LEAVES]],
        ) {
            let length = prefixes[0].len();
            for x in &mut prefixes {
                *x = &x[..length];
            }
            for x in &mut leaves {
                *x = &x[..length];
            }
            let mut i = 0;
            while i + WORDS <= length {
                // Both halves of a register go to the same lanes, unless there are so few of them
                // that one addition would wait for the other.
                let mut lanes = [[zero(); LEAVES]; PREFIXES];
                let mut more_lanes = lanes;
                let few = PREFIXES * LEAVES <= 2;
                let end = whole(length.min(i + LAZY_SUMS * WORDS / 2));
                while i + WORDS <= end {
                    let mut halves = [split(load(&prefixes[0][i..i + WORDS])); PREFIXES];
                    for p in 1..PREFIXES {
                        halves[p] = split(load(&prefixes[p][i..i + WORDS]));
                    }
                    for l in 0..LEAVES {
                        let (y0, y1) = split(load(&leaves[l][i..i + WORDS]));
                        for p in 0..PREFIXES {
                            let (x0, x1) = halves[p];
                            lanes[p][l] = add_wide(lanes[p][l], multiply_halves(x0, y0));
                            let lanes = if few { &mut more_lanes } else { &mut lanes };
                            lanes[p][l] = add_wide(lanes[p][l], multiply_halves(x1, y1));
                        }
                    }
                    i += WORDS;
                }
                for p in 0..PREFIXES {
                    for l in 0..LEAVES {
                        let (mut low, mut high) = (low_words(lanes[p][l]), high_words(lanes[p][l]));
                        if few {
                            low = add_wide(low, low_words(more_lanes[p][l]));
                            high = add_wide(high, high_words(more_lanes[p][l]));
                        }
                        sums[p][l].low += total(low);
                        sums[p][l].high += total(high);
                    }
                }
            }
            for (sums, prefix) in sums.iter_mut().zip(prefixes) {
                for (sum, leaf) in sums.iter_mut().zip(leaves) {
                    scalar::add_dot(&prefix[i..], &leaf[i..], sum);
                }
            }
        }

        /// Tiles of as many prefixes and leaves as registers hold.
        #[$instructions]
        pub(super) fn dots(
            prefixes: &[&[u32]],
            leaves: &[&[u32]],
            sums: &mut [[Sum; super::LEAVES]; super::PREFIXES],
        ) {
            for (prefixes, sums) in prefixes
                .chunks(TILE_PREFIXES)
                .zip(sums.chunks_mut(TILE_PREFIXES))
            {
                match *prefixes {
                    [a] => with_leaves([a], leaves, sums),
                    [a, b] => with_leaves([a, b], leaves, sums),
                    [a, b, c] => with_leaves([a, b, c], leaves, sums),
                    [a, b, c, d] => with_leaves([a, b, c, d], leaves, sums),
                    _ => unreachable!("tiles have one to four prefixes"),
                }
            }
        }

        #[$instructions]
        #[inline]
        fn with_leaves<const PREFIXES: usize>(
            prefixes: [&[u32]; PREFIXES],
            leaves: &[&[u32]],
            sums: &mut [[Sum; super::LEAVES]],
        ) {
            match *leaves {
                [] => {}
                [a] => tile(prefixes, [a], sums),
                [a, b] => tile(prefixes, [a, b], sums),
                [a, b, c] => tile(prefixes, [a, b, c], sums),
                [a, b, c, d] => tile(prefixes, [a, b, c, d], sums),
                _ => unreachable!("a tile has at most four leaves"),
            }
        }
    };
}
pub(super) use kernels;
