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
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for service in files.into_iter().flat_map(|it| it.service) {
        for method in &service.method {
            let path = format!("/oboro.v1.{}/{}", service.name(), method.name());
            let answer = method.output_type().rsplit('.').next().unwrap_or_default();
            calls.push(method.name().to_owned());
            answers.push((path, answer.to_owned()));
        }
    }
    std::fs::write(out.join("calls.rs"), format!("&{calls:?}"))?;
    std::fs::write(out.join("answers.rs"), format!("&{answers:?}"))?;
    let mut names = tonic_prost_build::Config::new();
    names.enable_type_names();
    tonic_prost_build::configure()
        // Residues and chunks are reference-counted, not copied.
        .bytes(".")
        .codec_path("crate::BoundedCodec")
        .compile_fds_with_config(compiler.file_descriptor_set(), names)?;
    Ok(())
}
