//! What the figures of this machine depend on: part of every result.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::clock;
use super::cpus;
use super::permission::Permissions;
use super::plan::{Plan, Until};

/// Of the whole run.
pub(super) fn of_run(plan: &Plan, permissions: &Permissions) -> BTreeMap<String, Value> {
    let refused: Vec<String> = permissions
        .refusals
        .iter()
        .map(ToString::to_string)
        .collect();
    let (scheduler, priority) = match permissions.priority {
        Some(priority) => ("SCHED_FIFO", priority),
        None => ("SCHED_OTHER", 0),
    };
    let mut conditions = BTreeMap::from([
        ("clock", json!(clock::NAME)),
        ("clocksource", told(CLOCKSOURCE)),
        ("cpus", json!(cpus::render(&permissions.cpus))),
        ("scheduler", json!(scheduler)),
        ("priority", json!(priority)),
        ("interval_us", json!(plan.interval.as_micros())),
        ("load", json!(plan.load.name())),
        (
            "cpu_dma_latency_held",
            json!(permissions.holds_dma_latency()),
        ),
        ("not_permitted", json!(refused)),
        (
            "rt_runtime_us",
            told("/proc/sys/kernel/sched_rt_runtime_us"),
        ),
        ("preemption", json!(preemption())),
        ("virtual_machine", json!(is_virtual())),
    ]);
    match plan.until {
        Until::Elapsed(time) => conditions.insert("seconds", json!(time.as_secs_f64())),
        Until::Loops(loops) => conditions.insert("loops", json!(loops)),
    };
    if permissions.priority.is_none()
        && let Ok(slack) = rustix::thread::current_timer_slack()
    {
        // The kernel may wake an ordinary thread this much later, to wake several at once.
        conditions.insert("timer_slack_ns", json!(slack));
    }
    conditions
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A line of the kernel's; null where it does not tell.
fn told(path: &str) -> Value {
    let text = fs::read_to_string(path).ok();
    text.map_or(Value::Null, |text| json!(text.trim()))
}

/// How the kernel preempts itself: what it was built for, and what was chosen where that can be
/// seen.
fn preemption() -> String {
    let built = rustix::system::uname()
        .version()
        .to_string_lossy()
        .into_owned();
    let built = built
        .split_whitespace()
        .find(|word| word.starts_with("PREEMPT"))
        .unwrap_or("none");
    let chosen = fs::read_to_string("/sys/kernel/debug/sched/preempt").unwrap_or_default();
    let chosen = chosen
        .split_whitespace()
        .find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
    match chosen {
        Some(chosen) => format!("{built}, {chosen}"),
        None => built.to_owned(),
    }
}

/// x86 says so; elsewhere nothing does, in a way that all kernels share.
fn is_virtual() -> Option<bool> {
    let cpus = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = cpus.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}
