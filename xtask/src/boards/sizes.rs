//! `cargo xtask sizes [--write]`: what each module of the C library costs on each board's compiler,
//! against the bars in `rtos/sizes.txt`.
//!
//! Called by `make check`; with `--write` by `make -C rtos sizes`, which brings the table up to
//! date and keeps its bars. A bar is raised by hand, so that growth is seen in review. The hosted
//! board is left out: a process of Linux has memory enough. Never links anything, and never runs a
//! core.

use super::folders;
use super::manifest::Board;
use super::sources::{self, Vendor};
use super::{board_names, compile::Compiler};
use crate::metadata::Metadata;
use callgraph::Graph;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

mod callgraph;

const TABLE: &str = "sizes.txt";
/// Row of the modules that every program links.
const BASE: &str = "base";
const BASE_MODULES: [&str; 10] = [
    "endpoint", "geometry", "give", "layout", "link", "queue", "session", "start", "take", "wait",
];
/// Row of all modules, but the one that only measures.
const ALL: &str = "all";
const MEASURES: &str = "histogram";
/// Files of the port for FreeRTOS, as modules.
const PORT: &str = "port/";

const HEADER: &str = "\
# What the library costs, in bytes, compiled with -Os by the compiler of each emulated board:
# machine code, constants, static memory (there is none), and the deepest stack of any of a module's
# functions: the sum of the frames along the deepest chain of calls, which is named. Calls through
# pointers (the port's functions) and of memcpy and the like are not in it.
# `bar` is the most that code and constants may be together; `make check` fails beyond. `all` is
# every module but histogram; `base` those that every program links: endpoint, geometry, give,
# layout, link, queue, session, start, take and wait. The others are linked only into programs that
# use them. Rows of `port/` are the port for FreeRTOS, which is no part of the library: with what
# the kernel's headers bring, and a few words of memory. Written by `make -C rtos sizes`, which
# keeps the bars: raise one by hand, and say why.
";

/// What one module costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cost {
    code: u64,
    constants: u64,
    fixed: u64,
    stack: u64,
    chain: String,
}

/// By board and module.
type Costs = BTreeMap<(String, String), Cost>;
/// The bars of the table.
type Bars = BTreeMap<(String, String), u64>;

/// Checks the table's bars, or writes it.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let write = match arguments {
        [] => false,
        [option] if option == "--write" => true,
        _ => return Err("sizes takes nothing, or --write".into()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("rtos");
    let table = root.join(TABLE);
    let text = fs::read_to_string(&table).unwrap_or_default();
    let mut bars = bars(&text)?;
    let costs = measure(&root)?;
    if write {
        for (row, cost) in &costs {
            bars.entry(row.clone()).or_insert_with(|| first_bar(cost));
        }
    }
    check(&costs, &bars)?;
    if write {
        let text = show(&costs, &bars);
        fs::write(&table, &text).map_err(|error| format!("{}: {error}", table.display()))?;
        print!("{text}");
    }
    println!("sizes: {} rows within their bars", costs.len());
    Ok(())
}

fn measure(root: &Path) -> Result<Costs, String> {
    let mut costs = Costs::new();
    let vendor = Vendor::find(&Metadata::load_manifest(&root.join("vendor/Cargo.toml"))?)?;
    for name in board_names(root)? {
        let board = Board::read(&root.join("boards").join(&name).join("board.toml"))?;
        if !board.build.prefix.is_empty() {
            costs.extend(measure_board(root, &vendor, &board)?);
        }
    }
    Ok(costs)
}

fn measure_board(root: &Path, vendor: &Vendor, board: &Board) -> Result<Costs, String> {
    let out = super::target_directory(root)
        .join("rtos/sizes")
        .join(&board.name);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let compiler = Compiler::new(&board.build.prefix, &board.build.package)?;
    let mut costs = Costs::new();
    let mut graph = Graph::default();
    let library = sources::library_flags(root, board);
    let port = sources::port_flags(root, vendor, board);
    for (folder, prefix, flags) in [("src", "", &library), ("port/freertos", PORT, &port)] {
        for source in folders::c_paths(&root.join(folder))? {
            let name = source.file_stem().unwrap_or_default().to_string_lossy();
            let object = out.join(format!("{name}.o"));
            compiler.measure(flags, &source, &object)?;
            let cost = sections(&board.build.prefix, &object)?;
            // Most boards cannot restrict tasks: there, files for that are empty.
            if cost == Cost::default() {
                continue;
            }
            let module = format!("{prefix}{}", name.trim_start_matches("hythe_"));
            let calls = object.with_extension("ci");
            let text = fs::read_to_string(&calls);
            graph.add(
                &module,
                &text.map_err(|error| format!("{}: {error}", calls.display()))?,
            )?;
            costs.insert((board.name.clone(), module), cost);
        }
    }
    for ((_, module), cost) in &mut costs {
        (cost.stack, cost.chain) = graph.deepest(module)?;
    }
    let base = sum(&costs, |module| BASE_MODULES.contains(&module));
    let all = sum(&costs, |module| {
        module != MEASURES && !module.starts_with(PORT)
    });
    costs.insert((board.name.clone(), BASE.to_owned()), base);
    costs.insert((board.name.clone(), ALL.to_owned()), all);
    Ok(costs)
}

/// What some of a board's modules cost together: their sizes, and the deepest of their stacks.
fn sum(costs: &Costs, is_in: impl Fn(&str) -> bool) -> Cost {
    let mut sum = Cost::default();
    for ((_, module), cost) in costs {
        if !is_in(module) {
            continue;
        }
        sum.code += cost.code;
        sum.constants += cost.constants;
        sum.fixed += cost.fixed;
        if cost.stack > sum.stack {
            sum.stack = cost.stack;
            sum.chain.clone_from(&cost.chain);
        }
    }
    sum
}

/// Of an object: bytes by the kind of section.
fn sections(prefix: &str, object: &Path) -> Result<Cost, String> {
    let command = format!("{prefix}size");
    let output = Command::new(&command)
        .arg("-A")
        .arg(object)
        .output()
        .map_err(|error| format!("{command} did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command} ended with {}", output.status));
    }
    let mut cost = Cost::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(bytes))) = (words.next(), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        let is = |kinds: &[&str]| kinds.iter().any(|kind| name.starts_with(kind));
        if is(&[".text"]) {
            cost.code += bytes;
        } else if is(&[".rodata", ".srodata"]) {
            cost.constants += bytes;
        } else if is(&[".data", ".bss", ".sdata", ".sbss"]) {
            cost.fixed += bytes;
        }
    }
    Ok(cost)
}

/// The bars of a table, by row.
fn bars(text: &str) -> Result<Bars, String> {
    let mut bars = Bars::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let row = match words[..] {
            [] | ["board", ..] => continue,
            [board, module, _, _, _, bar, ..] => bar.parse().ok().map(|bar| (board, module, bar)),
            _ => None,
        };
        let (board, module, bar) = row.ok_or_else(|| format!("{TABLE}: no row: {line}"))?;
        bars.insert((board.to_owned(), module.to_owned()), bar);
    }
    Ok(bars)
}

/// Half as much again as it costs: the next feature fits, a second copy of something does not.
fn first_bar(cost: &Cost) -> u64 {
    ((cost.code + cost.constants) * 3 / 2).next_multiple_of(32)
}

fn check(costs: &Costs, bars: &Bars) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (row @ (board, module), cost) in costs {
        let bytes = cost.code + cost.constants;
        match bars.get(row) {
            None => wrong.push(format!(
                "{board} {module}: no row; make -C rtos sizes adds it"
            )),
            Some(&bar) if bytes > bar => wrong.push(format!(
                "{board} {module}: {bytes} bytes of code and constants, its bar is {bar}"
            )),
            Some(_) => {}
        }
        if cost.fixed != 0 && !module.starts_with(PORT) {
            let fixed = cost.fixed;
            wrong.push(format!(
                "{board} {module}: {fixed} bytes of static memory, not 0"
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("rtos/{TABLE}:\n  {}", wrong.join("\n  "))),
    }
}

fn show(costs: &Costs, bars: &Bars) -> String {
    let mut text = format!(
        "{HEADER}\n{:<14} {:<18} {:>5} {:>9} {:>6} {:>5} {:>5}  deepest chain\n",
        "board", "module", "code", "constants", "static", "bar", "stack"
    );
    for (row @ (board, module), cost) in costs {
        let bar = bars.get(row).copied().unwrap_or(0);
        let Cost {
            code,
            constants,
            fixed,
            stack,
            chain,
        } = cost;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{board:<14} {module:<18} {code:>5} {constants:>9} {fixed:>6} {bar:>5} {stack:>5}  \
             {chain}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(cost: Cost) -> Costs {
        Costs::from([(("m3".to_owned(), "queue".to_owned()), cost)])
    }

    #[test]
    fn growth_past_a_bar_is_named() {
        let cost = |code, constants, fixed| Cost {
            code,
            constants,
            fixed,
            ..Cost::default()
        };
        let bars = bars("# text\nm3 queue 90 0 0 100 8 a > b\n").expect("a table");
        assert_eq!(check(&costs(cost(90, 10, 0)), &bars), Ok(()));
        let grown = check(&costs(cost(90, 11, 0)), &bars).expect_err("too large");
        assert!(
            grown.contains("m3 queue: 101 bytes") && grown.contains("100"),
            "{grown}"
        );
        let fixed = check(&costs(cost(1, 0, 4)), &bars).expect_err("a global");
        assert!(fixed.contains("4 bytes of static memory"), "{fixed}");
        let unknown = check(&costs(cost(1, 0, 0)), &Bars::new()).expect_err("no row");
        assert!(unknown.contains("make -C rtos sizes"), "{unknown}");
    }

    #[test]
    fn table_keeps_its_bars_when_it_is_written_again() {
        let costs = costs(Cost {
            code: 64,
            ..Cost::default()
        });
        let known = Bars::from([(("m3".to_owned(), "queue".to_owned()), 777)]);
        assert_eq!(bars(&show(&costs, &known)), Ok(known));
        assert!(bars("m3 queue 90 0 0\n").is_err());
    }
}
