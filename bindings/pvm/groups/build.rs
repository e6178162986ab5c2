//! Gives the shared library the name that programs for PVM ask for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgpvm3.so.3");
}
