//! Gives the shared library its name at run time. Never runs a tool: the header is kept, and
//! checked by a test.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Before 1.0 another minor version is another interface.
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    let name = match major {
        "0" => format!("libhythe.so.0.{}", env!("CARGO_PKG_VERSION_MINOR")),
        _ => format!("libhythe.so.{major}"),
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
}
