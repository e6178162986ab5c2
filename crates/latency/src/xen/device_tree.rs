//! The device tree that tells Xen whom to start (Xen, docs/misc/arm/device-tree/booting.txt), and
//! the part of it that the RTOS gets.

use super::{Files, Setting, Setup, bytes_of, settings};
use crate::LatencyError;

/// Where QEMU puts the modules, behind Xen and apart from each other. Xen moves them to where the
/// guests want them.
pub(super) const KERNEL_AT: u64 = 0x4900_0000;
pub(super) const INITRAMFS_AT: u64 = 0x4c00_0000;
pub(super) const IMAGE_AT: u64 = 0x4e00_0000;
pub(super) const DEVICES_AT: u64 = 0x4f00_0000;
/// Of the RTOS, and where it is if that is said beforehand: behind all that QEMU loads, in front of
/// where Xen moves to.
const GUEST_KIB: u64 = 16 << 10;
const GUEST_AT: u64 = 0x7000_0000;
/// Where it sees it (Xen, xen/include/public/arch-arm.h, GUEST_RAM0_BASE).
pub(super) const GUEST_SEES: std::ops::Range<u64> = 0x4000_0000..0x4000_0000 + (GUEST_KIB << 10);
/// Which CPU of the board a pool of the core's own consists of. The first one boots Xen, and stays
/// with Linux.
const POOL: &str = "cpu@1";
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
    let (xen, linux) = (
        setup.command_line(),
        settings::linux_words(setup.partition, setup.load),
    );
    let Pool { cpu, pool, member } = pool(setup);
    let memory = static_memory(setup);
    Ok(format!(
        r#"
/ {{
    {UART} {{ xen,passthrough; }};
    {cpu}
    chosen {{
        #address-cells = <2>;
        #size-cells = <2>;
        xen,xen-bootargs = "{xen}";
        xen,dom0-bootargs = "{linux}";
        {kernel}
        {initramfs}
        {pool}
        domU1 {{
            compatible = "xen,domain";
            #address-cells = <2>;
            #size-cells = <2>;
            memory = <0x0 {GUEST_KIB:#x}>;
            {memory}
            {member}
            cpus = <1>;
            {image}
            {devices}
        }};
    }};
}};
"#
    ))
}

/// Parts of the tree: a name for the CPU, the pool that it makes up, and who is in it.
#[derive(Default)]
struct Pool {
    cpu: String,
    pool: String,
    member: &'static str,
}

fn pool(setup: &Setup) -> Pool {
    if !setup.settings.contains(&Setting::Pool) {
        return Pool::default();
    }
    let scheduler = match setup.settings.contains(&Setting::NullScheduler) {
        true => "null",
        false => "credit2",
    };
    Pool {
        cpu: format!("cpus {{ core_cpu: {POOL} {{ }}; }};"),
        pool: format!(
            "core_pool: cpupool {{ compatible = \"xen,cpupool\"; cpupool-cpus = <&core_cpu>; cpupool-sched = \"{scheduler}\"; }};"
        ),
        member: "domain-cpupool = <&core_pool>;",
    }
}

fn static_memory(setup: &Setup) -> String {
    match setup.settings.contains(&Setting::StaticMemory) {
        true => format!(
            "xen,static-mem = <0x0 {GUEST_AT:#x} 0x0 {:#x}>;",
            GUEST_KIB << 10
        ),
        false => String::new(),
    }
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

#[cfg(test)]
mod tests {
    use super::super::{Hypervisor, Load, Partition};
    use super::*;

    fn with(settings: &[Setting]) -> Setup {
        Setup {
            tools: "tools".into(),
            hypervisor: Hypervisor::Built,
            image: "image".into(),
            cpu: "cortex-a53".to_owned(),
            partition: Partition::Partitioned,
            load: Load::Idle,
            settings: settings.to_vec(),
            options: Vec::new(),
            guest_cpu_instruction_samples: 0,
        }
    }

    #[test]
    fn pool_has_the_scheduler_that_was_asked_for() {
        let of = |settings: &[Setting]| pool(&with(settings)).pool;
        assert!(of(&[Setting::Pool]).contains("cpupool-sched = \"credit2\""));
        assert!(of(&Setting::ALL).contains("cpupool-sched = \"null\""));
        let without = pool(&with(&[Setting::NullScheduler]));
        assert_eq!(
            (without.cpu, without.pool, without.member),
            Default::default()
        );
    }

    #[test]
    fn static_memory_lies_behind_images_inside_board() {
        assert_eq!(static_memory(&with(&[])), "");
        let expected = "xen,static-mem = <0x0 0x70000000 0x0 0x1000000>;";
        assert_eq!(static_memory(&with(&[Setting::StaticMemory])), expected);
        const { assert!(GUEST_AT > DEVICES_AT) };
    }
}
