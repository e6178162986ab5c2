//! Bounded latency: real-time scheduling, the kernel's preemption, CPUs kept for one's own use.

use std::thread;

use hythe_sys::scheduling::enter_fifo;
use rustix::process::{Resource, getrlimit};
use rustix::system::uname;

use super::kernel::{Capability, has, read};
use super::{Group, Probe};

pub(super) fn probe() -> Vec<Probe> {
    vec![fifo(), priority_limit(), preempt_rt(), isolated_cpus()]
}

/// A thread enters the class and ends.
fn fifo() -> Probe {
    let (group, name) = (Group::Realtime, "SCHED_FIFO");
    let how = "run as root, or \"USER - rtprio 99\" in /etc/security/limits.conf; in a control group with \
               CONFIG_RT_GROUP_SCHED also a budget in cpu.rt_runtime_us";
    let budget = read("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_else(|| "unknown".into());
    // The class is the thread's own, so it ends with it.
    match thread::spawn(|| enter_fifo(1)).join() {
        Ok(Ok(())) => {
            let detail =
                format!("a thread entered it; real-time budget {budget} us in each second");
            Probe::works(group, name, detail)
        }
        Ok(Err(error)) => {
            Probe::missing(group, name, format!("a thread may not: {error}")).enable(how)
        }
        Err(_) => Probe::unknown(group, name, "the thread that tried it panicked"),
    }
}

fn priority_limit() -> Probe {
    let (group, name) = (Group::Realtime, "real-time priority limit");
    let limit = getrlimit(Resource::Rtprio).current;
    let text = limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string());
    if has(Capability::SysNice) {
        return Probe::works(
            group,
            name,
            format!("{text}, of no effect with CAP_SYS_NICE"),
        );
    }
    if limit == Some(0) {
        return Probe::missing(group, name, "0: no real-time priority without privilege")
            .enable("\"USER - rtprio 99\" in /etc/security/limits.conf");
    }
    Probe::works(group, name, text)
}

fn preempt_rt() -> Probe {
    let (group, name) = (Group::Realtime, "PREEMPT_RT");
    let kernel = uname();
    let (release, version) = (
        kernel.release().to_string_lossy(),
        kernel.version().to_string_lossy(),
    );
    let is_realtime = read("/sys/kernel/realtime").is_some_and(|value| value == "1");
    if is_realtime || version.contains("PREEMPT_RT") {
        return Probe::works(group, name, format!("{release}, {version}"));
    }
    Probe::missing(
        group,
        name,
        format!("{release} is not a real-time kernel ({version})"),
    )
    .enable("a kernel with CONFIG_PREEMPT_RT (Debian: linux-image-rt-amd64)")
}

fn isolated_cpus() -> Probe {
    let (group, name) = (Group::Realtime, "isolated CPUs");
    let list = |file| read(file).filter(|list| !list.is_empty());
    let isolated = list("/sys/devices/system/cpu/isolated");
    let tickless = list("/sys/devices/system/cpu/nohz_full").filter(|list| list != "(null)");
    let online = list("/sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".into());
    match isolated {
        Some(isolated) => {
            let tickless = tickless.unwrap_or_else(|| "none".into());
            let detail = format!("CPUs {isolated} of {online}; without ticks: {tickless}");
            Probe::works(group, name, detail)
        }
        None => Probe::missing(group, name, format!("none of {online}"))
            .enable("kernel parameters isolcpus=N nohz_full=N rcu_nocbs=N, or a cpuset partition"),
    }
}
