//! Compiles `proto/oboro.proto` without needing `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/oboro.proto");
    let descriptors = protox::compile(["oboro.proto"], ["proto"])?;
    tonic_prost_build::configure()
        // Residues and chunks are reference-counted, not copied.
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
