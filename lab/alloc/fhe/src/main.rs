//! Support counting on the `fhe` crate, with the process's allocator.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fhe_support::run()
}
