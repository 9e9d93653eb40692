// The size classes, for every size there is.

#include "check.h"
#include "class.h"

TEST(every_size_fits_its_class_and_not_the_one_before) {
    for (size_t size = 0; size <= FC_SMALL_MAX; size++) {
        unsigned class = fc_class_of(size);
        CHECK(class < FC_CLASSES, "(size %zu)", size);
        CHECK(fc_class_size(class) >= size, "(size %zu)", size);
        CHECK(class == 0 || fc_class_size(class - 1) < size, "(size %zu)", size);
    }
}

TEST(classes_grow_and_the_last_is_the_largest) {
    for (unsigned class = 1; class < FC_CLASSES; class++)
        CHECK(fc_class_size(class) > fc_class_size(class - 1));
    CHECK(fc_class_size(FC_CLASSES - 1) == FC_SMALL_MAX);
}

TEST(at_most_an_eighth_of_a_block_is_wasted) {
    for (size_t size = 129; size <= FC_SMALL_MAX; size++) {
        size_t waste = fc_class_size(fc_class_of(size)) - size;
        CHECK(waste * 8 <= size, "(%zu of %zu)", waste, size);
    }
    for (size_t size = 4097; size <= FC_SMALL_MAX; size++) {
        size_t waste = fc_class_size(fc_class_of(size)) - size;
        CHECK(waste * 16 <= size, "(%zu of %zu)", waste, size);
    }
}

TEST(blocks_are_aligned_and_those_of_a_page_are_staggered) {
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        size_t stride = fc_class_stride(class);
        CHECK(stride % FC_ALIGNMENT == 0 && stride >= fc_class_size(class));
        CHECK(stride < FC_PAGE || stride % FC_PAGE != 0, "(class %u)", class);
        CHECK(stride / FC_ALIGNMENT <= UINT16_MAX);
    }
}

TEST(a_span_holds_several_blocks_and_its_blocks_are_counted_in_16_bits) {
    for (unsigned class = 0; class < FC_CLASSES; class++) {
        size_t blocks = fc_class_pages(class) * FC_PAGE / fc_class_stride(class);
        CHECK(blocks >= 4 && blocks <= UINT16_MAX, "(class %u: %zu blocks)", class, blocks);
    }
}
