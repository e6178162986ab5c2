//! Exports the functions with any number of arguments, which `format.c` has under other names: a
//! shared library exports what is defined in Rust only.

use core::arch::naked_asm;

unsafe extern "C" {
    fn hythe_pvm_packf();
    fn hythe_pvm_unpackf();
    fn hythe_pvm_vpackf();
    fn hythe_pvm_vunpackf();
}

macro_rules! forward {
    ($name:ident, $to:ident) => {
        /// Goes on there, with all arguments as they lie in registers and on the stack.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
            naked_asm!("jmp {}", sym $to);
            #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
            naked_asm!("b {}", sym $to);
            #[cfg(target_arch = "riscv64")]
            naked_asm!("tail {}", sym $to);
        }
    };
}

forward!(pvm_packf, hythe_pvm_packf);
forward!(pvm_unpackf, hythe_pvm_unpackf);
forward!(pvm_vpackf, hythe_pvm_vpackf);
forward!(pvm_vunpackf, hythe_pvm_vunpackf);
