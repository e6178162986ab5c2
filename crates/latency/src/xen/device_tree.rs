//! The device tree that tells Xen whom to start (Xen, docs/misc/arm/device-tree/booting.txt), and the part of it that the RTOS gets.

use super::{Files, Setup, bytes_of};
use crate::LatencyError;

/// Where QEMU puts the modules, behind Xen and apart from each other. Xen moves them to where the guests want them.
pub(super) const KERNEL_AT: u64 = 0x4900_0000;
pub(super) const INITRAMFS_AT: u64 = 0x4c00_0000;
pub(super) const IMAGE_AT: u64 = 0x4e00_0000;
pub(super) const DEVICES_AT: u64 = 0x4f00_0000;
/// Of the RTOS.
const GUEST_KIB: u32 = 16 << 10;
/// The board's UART, as its own device tree names it.
const UART: &str = "pl011@9000000";

/// What is added to the board's own tree, which Xen boots with.
pub(super) fn additions(
    setup: &Setup,
    files: &Files,
    devices_bytes: u64,
) -> Result<String, LatencyError> {
    let module = |at: u64, bytes: u64, kinds: &str| {
        format!(
            "module@{at:x} {{ compatible = {kinds}, \"multiboot,module\"; reg = <0x0 {at:#x} 0x0 {bytes:#x}>; }};"
        )
    };
    let kernel = module(KERNEL_AT, bytes_of(&files.kernel)?, "\"multiboot,kernel\"");
    let initramfs = module(
        INITRAMFS_AT,
        bytes_of(&files.initramfs)?,
        "\"multiboot,ramdisk\"",
    );
    let image = module(IMAGE_AT, bytes_of(&setup.image)?, "\"multiboot,kernel\"");
    let devices = module(DEVICES_AT, devices_bytes, "\"multiboot,device-tree\"");
    let (xen, load) = (setup.command_line(), setup.load.name());
    Ok(format!(
        r#"
/ {{
    {UART} {{ xen,passthrough; }};
    chosen {{
        #address-cells = <2>;
        #size-cells = <2>;
        xen,xen-bootargs = "{xen}";
        xen,dom0-bootargs = "console=hvc0 panic=-1 nokaslr load={load}";
        {kernel}
        {initramfs}
        domU1 {{
            compatible = "xen,domain";
            #address-cells = <2>;
            #size-cells = <2>;
            memory = <0x0 {GUEST_KIB:#x}>;
            cpus = <1>;
            {image}
            {devices}
        }};
    }};
}};
"#
    ))
}

/// What the RTOS gets of the board: the UART, at its own address.
pub(super) fn devices() -> String {
    format!(
        r#"/dts-v1/;
/ {{
    #address-cells = <2>;
    #size-cells = <2>;
    passthrough {{
        compatible = "simple-bus";
        ranges;
        #address-cells = <2>;
        #size-cells = <2>;
        {UART} {{
            compatible = "arm,pl011", "arm,primecell";
            reg = <0x0 0x9000000 0x0 0x1000>;
            xen,reg = <0x0 0x9000000 0x0 0x1000 0x0 0x9000000>;
            xen,path = "/{UART}";
            xen,force-assign-without-iommu;
        }};
    }};
}};
"#
    )
}
