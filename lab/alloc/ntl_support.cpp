// Support counting as HElib lays it out, on NTL: a ciphertext has a row of residues for every part
// and prime, each a vector of its own that is allocated for the result and freed with it.
//
//     ntl-support THREADS ROW_BYTES ROUNDS [preallocated]
//     ntl-support THREADS ROW_BYTES blocks BLOCKS
//
// Initial makes encrypted columns. A round is one query: it brings the columns to the next level,
// multiplies all pairs, adds the products to their sums, and frees everything but the sums. The
// first round is a phase of its own; the later ones are the steady main phase. With `preallocated`
// every buffer of a round stays for the next one: the same arithmetic without an allocator. With
// `blocks` it is the job of the FCMalloc paper's Table 6: one query, on that many blocks of
// transactions, whose products are all in memory before the first one is freed; every phase is that
// of the first round, and there is no other.

#include "bench.h"
#include "team.h"

#include <NTL/ZZ.h>
#include <NTL/lzz_p.h>
#include <NTL/vector.h>

#include <utility>
#include <vector>

namespace {

using Row = NTL::Vec<long>;
using Poly = std::vector<Row>;  // one row for every prime
using Ciphertext = std::vector<Poly>;

struct Prime {
    long value;
    NTL::mulmod_t inverse;
    explicit Prime(long q) : value(q), inverse(NTL::PrepMulMod(q)) {}
};

// How many columns and primes make a query of about the same arithmetic for every length of rows.
struct Shape {
    long length;  // residues in a row
    size_t primes;
    size_t columns;

    explicit Shape(size_t row_bytes)
        : length(static_cast<long>(row_bytes / sizeof(long))), primes(row_bytes <= 64 << 10  ? 8
                                                                      : row_bytes <= 1 << 20 ? 4
                                                                                             : 2),
          columns(row_bytes <= 64 << 10  ? 18
                  : row_bytes <= 1 << 20 ? 8
                                         : 5) {}
};

void multiply(Row &out, const Row &a, const Row &b, const Prime &q) {
    out.SetLength(a.length());
    for (long i = 0; i < a.length(); i++)
        out[i] = NTL::MulMod(a[i], b[i], q.value, q.inverse);
}

void add(Row &sum, const Row &a, const Prime &q) {
    for (long i = 0; i < a.length(); i++)
        sum[i] = NTL::AddMod(sum[i], a[i], q.value);
}

// (a - last) / last_prime, residue by residue: the row at the next level.
void switch_down(Row &out, const Row &a, const Row &last, long inverse_of_last, const Prime &q) {
    out.SetLength(a.length());
    NTL::mulmod_precon_t precomputed = NTL::PrepMulModPrecon(inverse_of_last, q.value, q.inverse);
    for (long i = 0; i < a.length(); i++) {
        long difference = NTL::SubMod(a[i], last[i] % q.value, q.value);
        out[i] = NTL::MulModPrecon(difference, inverse_of_last, q.value, precomputed);
    }
}

class Counting {
  public:
    Counting(size_t threads, size_t row_bytes, size_t blocks, bool preallocated)
        : shape_(row_bytes), blocks_(blocks), preallocated_(preallocated), team_(threads),
          scratch_(threads) {
        for (size_t p = 0; p <= shape_.primes; p++) {
            long q = 0;
            do
                q = NTL::GenPrime_long(NTL_SP_NBITS);
            while (is_prime_of_ours(q));
            primes_.emplace_back(q);
        }
        for (size_t p = 0; p < shape_.primes; p++)
            inverses_of_last_.push_back(
                NTL::InvMod(primes_.back().value % primes_[p].value, primes_[p].value));
        for (size_t i = 0; i < shape_.columns; i++)
            for (size_t j = 0; j < i; j++)
                pairs_.emplace_back(i, j);
        for (Row &row : scratch_)
            if (preallocated_) row.SetLength(shape_.length);
    }

    // Fresh columns, of two parts with one prime more than the products have, and empty sums.
    void encrypt() {
        columns_.resize(shape_.columns * blocks_);
        team_.each(columns_.size(), [this](size_t, size_t i) { columns_[i] = fresh(i); });
        lowered_.assign(columns_.size(), Ciphertext(2, Poly(shape_.primes)));
        products_.assign(pairs_.size() * blocks_, Ciphertext(3, Poly(shape_.primes)));
        sums_.resize(pairs_.size());
        team_.each(pairs_.size(), [this](size_t, size_t t) { sums_[t] = zero(); });
    }

    void switch_columns_down() {
        team_.each(columns_.size(), [this](size_t, size_t i) {
            for (size_t part = 0; part < 2; part++)
                for (size_t p = 0; p < shape_.primes; p++)
                    switch_down(lowered_[i][part][p], columns_[i][part][p],
                                columns_[i][part].back(), inverses_of_last_[p], primes_[p]);
        });
    }

    void multiply_pairs() {
        team_.each(products_.size(), [this](size_t worker, size_t t) {
            const auto [i, j] = factors(t);
            const Ciphertext &a = lowered_[i], &b = lowered_[j];
            Ciphertext &out = products_[t];
            for (size_t p = 0; p < shape_.primes; p++) {
                Row temporary;
                Row &cross = preallocated_ ? scratch_[worker] : temporary;
                multiply(out[0][p], a[0][p], b[0][p], primes_[p]);
                multiply(out[1][p], a[0][p], b[1][p], primes_[p]);
                multiply(cross, a[1][p], b[0][p], primes_[p]);
                add(out[1][p], cross, primes_[p]);
                multiply(out[2][p], a[1][p], b[1][p], primes_[p]);
            }
        });
        rounds_++;
    }

    void add_products() {
        team_.each(pairs_.size(), [this](size_t, size_t t) {
            for (size_t product = t; product < products_.size(); product += pairs_.size())
                for (size_t part = 0; part < 3; part++)
                    for (size_t p = 0; p < shape_.primes; p++)
                        add(sums_[t][part][p], products_[product][part][p], primes_[p]);
        });
    }

    void free_round() {
        if (preallocated_) return;
        team_.each(products_.size(), [this](size_t, size_t t) { clear(products_[t]); });
        team_.each(lowered_.size(), [this](size_t, size_t i) { clear(lowered_[i]); });
    }

    void destroy() {
        columns_.clear();
        lowered_.clear();
        products_.clear();
        sums_.clear();
    }

    // Whether the first parts of all sums are the rounds' products, at both ends of each row.
    bool verified() const {
        for (size_t t = 0; t < pairs_.size(); t++)
            for (size_t p = 0; p < shape_.primes; p++)
                for (long i : {0L, shape_.length - 1})
                    if (sums_[t][0][p][i] != expected(t, p, i)) return false;
        return true;
    }

  private:
    bool is_prime_of_ours(long q) const {
        for (const Prime &prime : primes_)
            if (prime.value == q) return true;
        return false;
    }

    Ciphertext fresh(size_t column) const {
        uint64_t random = column + 1;
        Ciphertext made(2, Poly(primes_.size()));
        for (Poly &part : made)
            for (size_t p = 0; p < primes_.size(); p++) {
                part[p].SetLength(shape_.length);
                for (long &residue : part[p])
                    residue = static_cast<long>(bench_random(&random) >> 6) % primes_[p].value;
            }
        return made;
    }

    Ciphertext zero() const {
        Ciphertext made(3, Poly(shape_.primes));
        for (Poly &part : made)
            for (Row &row : part)
                row.SetLength(shape_.length, 0);
        return made;
    }

    static void clear(Ciphertext &ciphertext) {
        for (Poly &part : ciphertext)
            for (Row &row : part)
                row.kill();
    }

    long lowered(size_t column, size_t p, long i) const {
        const Prime &q = primes_[p];
        const Poly &part = columns_[column][0];
        long difference = NTL::SubMod(part[p][i], part.back()[i] % q.value, q.value);
        return NTL::MulMod(difference, inverses_of_last_[p], q.value, q.inverse);
    }

    // The columns of a product: all pairs of the first block, then all of the second.
    std::pair<size_t, size_t> factors(size_t product) const {
        auto [i, j] = pairs_[product % pairs_.size()];
        size_t block = product / pairs_.size() * shape_.columns;
        return {block + i, block + j};
    }

    long expected(size_t t, size_t p, long i) const {
        const Prime &q = primes_[p];
        long sum = 0;
        for (size_t product = t; product < products_.size(); product += pairs_.size()) {
            auto [a, b] = factors(product);
            sum = NTL::AddMod(
                sum, NTL::MulMod(lowered(a, p, i), lowered(b, p, i), q.value, q.inverse), q.value);
        }
        return NTL::MulMod(sum, rounds_, q.value, q.inverse);
    }

    Shape shape_;
    size_t blocks_;
    bool preallocated_;
    std::vector<Prime> primes_;  // the last one is dropped by the switch
    std::vector<long> inverses_of_last_;
    std::vector<std::pair<size_t, size_t>> pairs_;
    Team team_;
    std::vector<Row> scratch_;  // one for every thread
    std::vector<Ciphertext> columns_, lowered_, products_, sums_;
    long rounds_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
    double start = bench_start_seconds();
    bench_be_warm(argc, argv);
    bool paper = argc == 5 && strcmp(argv[3], "blocks") == 0;
    bool preallocated = argc == 5 && strcmp(argv[4], "preallocated") == 0;
    if (argc < 4 || argc > 5 || (argc == 5 && !paper && !preallocated)) {
        fprintf(stderr, "usage: ntl-support THREADS ROW_BYTES ROUNDS [preallocated]\n"
                        "       ntl-support THREADS ROW_BYTES blocks BLOCKS\n");
        return 2;
    }
    size_t blocks = paper ? bench_number(argv[4]) : 1;
    size_t rounds = paper ? 1 : bench_number(argv[3]);
    Counting counting(bench_number(argv[1]), bench_number(argv[2]), blocks, preallocated);

    enum { INITIAL, FIRST, SWITCH, PRODUCT, ADD, FREEING, TERMINAL, PHASES };
    phase phases[PHASES] = {{"initial", {}}, {"first", {}}, {"modulus_switch", {}},
                            {"product", {}}, {"add", {}},   {"freeing", {}},
                            {"terminal", {}}};
    auto round = [&](size_t switching, size_t product, size_t add, size_t freeing) {
        bench_measure(phases[switching].spent, [&] { counting.switch_columns_down(); });
        bench_measure(phases[product].spent, [&] { counting.multiply_pairs(); });
        bench_measure(phases[add].spent, [&] { counting.add_products(); });
        bench_measure(phases[freeing].spent, [&] { counting.free_round(); });
    };
    bench_measure(phases[INITIAL].spent, [&] { counting.encrypt(); });
    bench_warm();
    if (!paper) round(FIRST, FIRST, FIRST, FIRST);
    bench_mark();
    for (size_t i = 0; i < rounds; i++)
        round(SWITCH, PRODUCT, ADD, FREEING);
    bench_mark();
    bool verified = counting.verified();
    long peak = bench_peak_bytes();
    bench_measure(phases[TERMINAL].spent, [&] { counting.destroy(); });
    bench_report(start, phases, PHASES, peak, verified);
    return 0;
}
