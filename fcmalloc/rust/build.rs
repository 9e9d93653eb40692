//! Compiles fcmalloc under its prefixed names: all of it but the files that define the standard ones.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

const STANDARD_NAMES: [&str; 2] = ["override.c", "cxx.c"];

fn main() -> Result<(), Box<dyn Error>> {
    let fcmalloc = Path::new("..");
    let (sources, headers) = (fcmalloc.join("src"), fcmalloc.join("include"));
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed={}", headers.display());
    let mut build = cc::Build::new();
    build
        .include(headers)
        .define("_GNU_SOURCE", None)
        .std("gnu17")
        .opt_level(2)
        .extra_warnings(true)
        .flags(["-fno-builtin-malloc", "-ftls-model=initial-exec"])
        .flags(["-fvisibility=hidden", "-fexceptions", "-pthread"]);
    // In one order everywhere, so that the same sources give the same bytes.
    let mut files = fs::read_dir(sources)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    for file in files {
        let is_source = file.extension().is_some_and(|extension| extension == "c");
        if is_source && !STANDARD_NAMES.iter().any(|name| file.ends_with(name)) {
            build.file(file);
        }
    }
    build.try_compile("fcmalloc-prefixed")?;
    Ok(())
}
