//! Support counting on the `fhe` crate, with the allocator that the process has.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fhe_support::run()
}
