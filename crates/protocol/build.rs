//! Compiles `proto/oboro.proto` without needing `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/oboro.proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.open_file("oboro.proto")?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(
        out.join("oboro.descriptors"),
        compiler.encode_file_descriptor_set(),
    )?;
    let files = compiler.file_descriptor_set().file;
    let services = files.into_iter().flat_map(|it| it.service);
    let calls = services.flat_map(|it| it.method);
    let calls: Vec<String> = calls.map(|it| it.name().to_owned()).collect();
    std::fs::write(out.join("calls.rs"), format!("&{calls:?}"))?;
    tonic_prost_build::configure()
        // Residues and chunks are reference-counted, not copied.
        .bytes(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
