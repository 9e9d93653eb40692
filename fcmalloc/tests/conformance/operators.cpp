// Every form of operator new and delete.

#include "check.h"

#include <malloc.h>
#include <new>
#include <string>
#include <vector>

namespace {

constexpr std::size_t impossible = PTRDIFF_MAX;

void check_block(void *block, std::size_t size, std::size_t alignment) {
    CHECK(block != nullptr && (uintptr_t)block % alignment == 0);
    CHECK(malloc_usable_size(block) >= size);
    memset(block, 1, size);
}

template <class Allocation> bool throws_bad_alloc(Allocation allocation) {
    try {
        allocation();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

}  // namespace

TEST(plain_operators_allocate) {
    for (std::size_t size = 0; size < 300000; size = size * 3 / 2 + 1) {
        void *one = ::operator new(size), *many = ::operator new[](size);
        check_block(one, size, 16);
        check_block(many, size, 16);
        ::operator delete(one);
        ::operator delete[](many);
    }
}

TEST(sized_operators_free) {
    for (std::size_t size = 0; size < 300000; size = size * 3 / 2 + 1) {
        void *one = ::operator new(size), *many = ::operator new[](size);
        ::operator delete(one, size);
        ::operator delete[](many, size);
    }
}

TEST(nothrow_operators_return_null) {
    void *one = ::operator new(100, std::nothrow), *many = ::operator new[](100, std::nothrow);
    check_block(one, 100, 16);
    check_block(many, 100, 16);
    ::operator delete(one, std::nothrow);
    ::operator delete[](many, std::nothrow);
    CHECK(::operator new(opaque_size(impossible), std::nothrow) == nullptr);
    CHECK(::operator new[](opaque_size(impossible), std::nothrow) == nullptr);
}

TEST(aligned_operators_align) {
    for (std::size_t bytes = 1; bytes <= 1 << 22; bytes *= 2) {
        auto alignment = std::align_val_t{bytes};
        for (std::size_t size : {std::size_t{0}, std::size_t{10}, bytes, 3 * bytes}) {
            void *blocks[] = {::operator new(size, alignment),
                              ::operator new[](size, alignment),
                              ::operator new(size, alignment, std::nothrow),
                              ::operator new[](size, alignment, std::nothrow),
                              ::operator new(size, alignment),
                              ::operator new[](size, alignment)};
            for (void *block : blocks)
                check_block(block, size, bytes);
            ::operator delete(blocks[0], alignment);
            ::operator delete[](blocks[1], alignment);
            ::operator delete(blocks[2], alignment, std::nothrow);
            ::operator delete[](blocks[3], alignment, std::nothrow);
            ::operator delete(blocks[4], size, alignment);
            ::operator delete[](blocks[5], size, alignment);
        }
    }
}

TEST(operators_throw_bad_alloc) {
    auto alignment = std::align_val_t{64};
    CHECK(throws_bad_alloc([] { return ::operator new(opaque_size(impossible)); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](opaque_size(impossible)); }));
    CHECK(throws_bad_alloc([=] { return ::operator new(opaque_size(impossible), alignment); }));
    CHECK(throws_bad_alloc([=] { return ::operator new[](opaque_size(impossible), alignment); }));
    CHECK(::operator new(opaque_size(impossible), alignment, std::nothrow) == nullptr);
    CHECK(::operator new[](opaque_size(impossible), alignment, std::nothrow) == nullptr);
}

static int handler_calls;

static void give_up_at_the_third_call() {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
}

static void give_up_by_throwing() {
    handler_calls++;
    throw std::bad_alloc();
}

TEST(the_new_handler_is_called_until_it_gives_up) {
    handler_calls = 0;
    std::set_new_handler(give_up_at_the_third_call);
    CHECK(throws_bad_alloc([] { return ::operator new(opaque_size(impossible)); }));
    CHECK(handler_calls == 3, "(%d calls)", handler_calls);
    handler_calls = 0;
    std::set_new_handler(give_up_at_the_third_call);
    CHECK(::operator new[](opaque_size(impossible), std::nothrow) == nullptr);
    CHECK(handler_calls == 3, "(%d calls)", handler_calls);
    handler_calls = 0;
    std::set_new_handler(give_up_at_the_third_call);
    CHECK(throws_bad_alloc(
        [] { return ::operator new(opaque_size(impossible), std::align_val_t{128}); }));
    CHECK(handler_calls == 3, "(%d calls)", handler_calls);
}

TEST(a_new_handler_may_throw) {
    std::set_new_handler(give_up_by_throwing);
    handler_calls = 0;
    CHECK(throws_bad_alloc([] { return ::operator new(opaque_size(impossible)); }));
    CHECK(handler_calls == 1);
    CHECK(::operator new(opaque_size(impossible), std::nothrow) == nullptr);
    CHECK(::operator new(opaque_size(impossible), std::align_val_t{64}, std::nothrow) == nullptr);
    CHECK(handler_calls == 3);
    std::set_new_handler(nullptr);
}

TEST(the_standard_library_lives_on_them) {
    std::vector<std::string> words;
    for (int i = 0; i < 100000; i++)
        words.push_back(std::string(i % 200, 'x') + std::to_string(i));
    for (int i = 0; i < 100000; i++)
        CHECK(words[i].size() >= std::size_t(i % 200) + 1);
    words.erase(words.begin(), words.begin() + 50000);
    words.shrink_to_fit();
    CHECK(words.front() == std::string(0, 'x') + "50000");
}
