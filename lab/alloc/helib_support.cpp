// Support counting on HElib itself, the job of the papers: the products of all pairs of items, by
// block, added to the pair's sum in place.
//
//     helib-support THREADS ROUNDS
//
// Initial makes the context, the key and encrypted columns. `first` is the first round, the one
// that the FCMalloc paper times, and `main` are the later ones: each starts threads of its own and
// joins them. After each, `ending` decrypts a sum and frees all of them. The traces that replay.c
// runs are of such a round, and its phases are these. Built where HELIB names the prefix of an
// installed HElib (2.3 was tried).

#include "bench.h"

#include <helib/helib.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr long M = 16384, P = 65537, BITS = 60;
constexpr size_t ITEMS = 18, BLOCKS = 4;

class Counting {
  public:
    explicit Counting(size_t threads)
        : threads_(threads),
          context_(helib::ContextBuilder<helib::BGV>().m(M).p(P).r(1).bits(BITS).c(2).build()),
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
        for (size_t b = 0; b < BLOCKS; b++)
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

    // Decrypts one sum, and frees them all.
    bool end_round() {
        auto [i, j] = pairs_[17];
        NTL::ZZX want, got;
        for (size_t b = 0; b < BLOCKS; b++)
            want += NTL::ZZX(power(b, i) + power(b, j), 1);
        secret_.Decrypt(got, sums_[17]);
        sums_.clear();
        return got == want;
    }

  private:
    // Different for all columns of a block, and below half the degree of the ring.
    static long power(size_t block, size_t item) {
        return static_cast<long>(block * 1009 + item * 31 + item * item);
    }

    void sum_up(helib::Ctxt &out, std::pair<size_t, size_t> pair) const {
        std::optional<helib::Ctxt> sum;
        for (size_t b = 0; b < BLOCKS; b++) {
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
    helib::Context context_;
    helib::SecKey secret_;
    std::vector<std::pair<size_t, size_t>> pairs_;
    std::vector<helib::Ctxt> columns_;
    std::vector<helib::Ctxt> sums_;
};

}  // namespace

int main(int argc, char **argv) {
    double start = bench_start_seconds();
    if (argc == 2 && strcmp(argv[1], "--warm") == 0) return bench_use_memory();
    if (argc != 3) {
        fprintf(stderr, "usage: helib-support THREADS ROUNDS\n");
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
        counting = std::make_unique<Counting>(threads);
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
