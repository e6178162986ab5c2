//! Gives the shared library the name that programs for PVM ask for, and compiles the functions with
//! any number of arguments, which only C can define.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/format.c");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpvm3.so.3");
    cc::Build::new()
        .file("src/format.c")
        .std("c99")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Wconversion")
        .compile("hythe_pvm_format");
}
