// Support counting on HElib itself, the job of the papers: the products of all pairs of items, by
// block, added to the pair's sum in place.
//
//     helib-support THREADS ROUNDS
//     helib-support THREADS blocks BLOCKS
//
// Initial makes the context, the key and encrypted columns. `first` is the first round, the one
// that the FCMalloc paper times, and `main` are the later ones: each starts threads of its own and
// joins them. After each, `ending` decrypts a sum and frees all of them. The traces that replay.c
// runs are of such a round, and its phases are these. With `blocks` it is the FCMalloc paper's
// Table 6: one query on that many blocks, phase by phase, whose products are all in memory before
// the first one is freed. Built where HELIB names the prefix of an installed HElib (2.2 and 2.3
// were tried).

#include "bench.h"
#include "team.h"

#include <helib/helib.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr long M = 16384, P = 65537;
constexpr size_t ITEMS = 18;

// The bits of the ciphertext modulus, the columns of a key-switching matrix, and the blocks.
struct Shape {
    long bits, columns;
    size_t blocks;
};
// Enough for one product.
constexpr Shape usual() { return {60, 2, 4}; }
// As in the paper: its security (84 bits; the paper asks for 80) and its columns. A product first
// switches its factors to a smaller modulus.
constexpr Shape paper(size_t blocks) { return {180, 3, blocks}; }

class Counting {
  public:
    Counting(size_t threads, Shape shape)
        : threads_(threads), blocks_(shape.blocks), context_(helib::ContextBuilder<helib::BGV>()
                                                                 .m(M)
                                                                 .p(P)
                                                                 .r(1)
                                                                 .bits(shape.bits)
                                                                 .c(shape.columns)
                                                                 .build()),
          secret_(context_) {
        secret_.GenSecKey();
        for (size_t i = 0; i < ITEMS; i++)
            for (size_t j = 0; j < i; j++)
                pairs_.emplace_back(i, j);
    }

    // A column is a power of X: encoding bits in slots would take seconds, and nothing else in the
    // later phases.
    void encrypt() {
        const helib::PubKey &key = secret_;
        for (size_t b = 0; b < blocks_; b++)
            for (size_t i = 0; i < ITEMS; i++) {
                columns_.emplace_back(key);
                key.Encrypt(columns_.back(), NTL::ZZX(power(b, i), 1));
            }
    }

    void begin_round() { sums_.assign(pairs_.size(), helib::Ctxt(secret_)); }

    // All products, each pair's in a sum of its own. Threads share the pairs dynamically.
    void multiply() {
        std::atomic<size_t> next{0};
        std::vector<std::thread> team;
        for (size_t i = 0; i < threads_; i++)
            team.emplace_back([this, &next] {
                for (size_t t = next++; t < pairs_.size(); t = next++)
                    sum_up(sums_[t], pairs_[t]);
            });
        for (std::thread &thread : team)
            thread.join();
    }

    // Copies both factors of every product, and brings them to the level of their product.
    void switch_down(Team &team) {
        left_.resize(pairs_.size() * blocks_);
        right_.resize(left_.size());
        team.each(left_.size(), [this](size_t, size_t k) {
            auto [i, j] = pairs_[k % pairs_.size()];
            size_t block = k / pairs_.size() * ITEMS;
            left_[k].emplace(columns_[block + i]);
            right_[k].emplace(columns_[block + j]);
            for (helib::Ctxt *factor : {&*left_[k], &*right_[k]})
                factor->bringToSet(factor->naturalPrimeSet());
        });
    }

    void multiply_apart(Team &team) {
        team.each(left_.size(),
                  [this](size_t, size_t k) { left_[k]->multLowLvl(*right_[k], true); });
    }

    void add_up(Team &team) {
        team.each(pairs_.size(), [this](size_t, size_t t) {
            sums_[t] = *left_[t];
            for (size_t k = t + pairs_.size(); k < left_.size(); k += pairs_.size())
                sums_[t] += *left_[k];
        });
    }

    void free_products(Team &team) {
        team.each(left_.size(), [this](size_t, size_t k) {
            left_[k].reset();
            right_[k].reset();
        });
    }

    // Decrypts one sum, and frees them all.
    bool end_round() {
        auto [i, j] = pairs_[17];
        NTL::ZZX want, got;
        for (size_t b = 0; b < blocks_; b++)
            want += NTL::ZZX(power(b, i) + power(b, j), 1);
        secret_.Decrypt(got, sums_[17]);
        sums_.clear();
        return got == want;
    }

  private:
    // Different for all columns of a block, and below half the degree of the ring.
    static long power(size_t block, size_t item) {
        return static_cast<long>((block * 1009 + item * 31 + item * item) % (M / 4));
    }

    void sum_up(helib::Ctxt &out, std::pair<size_t, size_t> pair) const {
        std::optional<helib::Ctxt> sum;
        for (size_t b = 0; b < blocks_; b++) {
            helib::Ctxt product = columns_[b * ITEMS + pair.first];
            product.multLowLvl(columns_[b * ITEMS + pair.second]);
            if (!sum)
                sum = product;
            else
                *sum += product;
        }
        out = *sum;
    }

    size_t threads_;
    size_t blocks_;
    helib::Context context_;
    helib::SecKey secret_;
    std::vector<std::pair<size_t, size_t>> pairs_;
    std::vector<helib::Ctxt> columns_;
    std::vector<helib::Ctxt> sums_;
    // One of each for a product; the left ones become the products.
    std::vector<std::optional<helib::Ctxt>> left_, right_;
};

// Table 6 of the paper. The team's threads live for the whole job, as OpenMP's do.
int paper_job(double start, size_t threads, size_t blocks) {
    enum { INITIAL, SWITCH, PRODUCT, ADD, FREEING, TERMINAL, PHASES };
    phase phases[PHASES] = {{"initial", {}}, {"modulus_switch", {}}, {"product", {}},
                            {"add", {}},     {"freeing", {}},        {"terminal", {}}};
    Team team(threads);
    std::unique_ptr<Counting> counting;
    bench_measure(phases[INITIAL].spent, [&] {
        counting = std::make_unique<Counting>(threads, paper(blocks));
        counting->encrypt();
        counting->begin_round();
    });
    bench_warm();
    bench_measure(phases[SWITCH].spent, [&] { counting->switch_down(team); });
    bench_measure(phases[PRODUCT].spent, [&] { counting->multiply_apart(team); });
    bench_measure(phases[ADD].spent, [&] { counting->add_up(team); });
    bench_measure(phases[FREEING].spent, [&] { counting->free_products(team); });
    long peak = bench_peak_bytes();
    bool verified = counting->end_round();
    bench_measure(phases[TERMINAL].spent, [&] { counting.reset(); });
    bench_report(start, phases, PHASES, peak, verified);
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    double start = bench_start_seconds();
    bench_be_warm(argc, argv);
    if (argc == 4 && strcmp(argv[2], "blocks") == 0)
        return paper_job(start, bench_number(argv[1]), bench_number(argv[3]));
    if (argc != 3) {
        fprintf(stderr, "usage: helib-support THREADS ROUNDS\n"
                        "       helib-support THREADS blocks BLOCKS\n");
        return 2;
    }
    size_t threads = bench_number(argv[1]), rounds = bench_number(argv[2]);
    enum { INITIAL, FIRST, MAIN, ENDING, TERMINAL, PHASES };
    phase phases[PHASES] = {
        {"initial", {}}, {"first", {}}, {"main", {}}, {"ending", {}}, {"terminal", {}}};
    std::unique_ptr<Counting> counting;
    bool verified = true;
    auto round = [&](reading &multiplying) {
        counting->begin_round();
        bench_measure(multiplying, [&] { counting->multiply(); });
        bench_measure(phases[ENDING].spent, [&] { verified &= counting->end_round(); });
    };
    bench_measure(phases[INITIAL].spent, [&] {
        counting = std::make_unique<Counting>(threads, usual());
        counting->encrypt();
    });
    bench_warm();
    round(phases[FIRST].spent);
    bench_mark();
    for (size_t i = 0; i < rounds; i++)
        round(phases[MAIN].spent);
    bench_mark();
    long peak = bench_peak_bytes();
    bench_measure(phases[TERMINAL].spent, [&] { counting.reset(); });
    bench_report(start, phases, PHASES, peak, verified);
    return 0;
}
