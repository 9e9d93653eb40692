//! All pairs of encrypted columns, with temporary copies and without, with the process's allocator.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fhe_support::products::run()
}
