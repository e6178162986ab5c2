//! Our header and symbols beside Debian's: the same values, sizes and offsets, and all that
//! Debian's programs ask for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Fixture, built, has_pvm, text};

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Names of all constants of Debian's header.
fn constants() -> BTreeSet<String> {
    let header = std::fs::read_to_string("/usr/include/pvm3.h").expect("installed");
    let defined = header.lines().filter_map(|line| {
        let mut words = line.strip_prefix('#')?.split_whitespace();
        let name = (words.next() == Some("define")).then(|| words.next())??;
        // What has parameters, marks, and what depends on the compiler is none.
        let is_constant = (name.starts_with("Pvm") || name.starts_with("PVM"))
            && !name.contains('(')
            && !name.starts_with("PVMTMPNAM");
        is_constant.then(|| name.to_owned())
    });
    defined.collect()
}

/// A program that prints values, sizes and offsets of the header that it is compiled against.
fn source() -> String {
    let mut lines = Vec::new();
    for name in constants() {
        // Text and numbers are printed by what they are.
        lines.push(format!("    SHOW({name});"));
    }
    for (name, fields) in [
        ("pvmhostinfo", "hi_tid hi_name hi_arch hi_speed hi_dsig"),
        (
            "pvmtaskinfo",
            "ti_tid ti_ptid ti_host ti_flag ti_a_out ti_pid",
        ),
        ("pvmminfo", "len ctx tag wid enc crc src dst"),
        (
            "pvmmboxinfo",
            "mi_name mi_nentries mi_indices mi_owners mi_flags",
        ),
    ] {
        lines.push(format!(
            "    printf(\"{name} %zu\\n\", sizeof(struct {name}));"
        ));
        for field in fields.split(' ') {
            lines.push(format!(
                "    printf(\"{name}.{field} %zu %zu\\n\", offsetof(struct {name}, {field}), \
                 sizeof(((struct {name} *)0)->{field}));"
            ));
        }
    }
    for index in [0, 1, 7, 1 << 20] {
        lines.push(format!("    SHOW(PvmMboxDirectIndex({index}u));"));
        lines.push(format!("    SHOW(PvmMboxDirectIndexOf({index}u << 10));"));
    }
    let body = lines.join("\n");
    format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <pvm3.h>\n\
         static void text(const char *name, const char *it) {{ printf(\"%s %s\\n\", name, it); }}\n\
         static void number(const char *name, long it) {{ printf(\"%s %ld\\n\", name, it); }}\n\
         #define SHOW(it) _Generic((it), char *: text, default: number)(#it, it)\n\
         int main(void)\n{{\n{body}\n    return 0;\n}}\n"
    )
}

fn shown_by(folder: &Path, name: &str, include: Option<&Path>) -> String {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source()).expect("written");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-w", "-o"])
        .arg(&program)
        .arg(&file);
    if let Some(include) = include {
        compiler.arg("-I").arg(include);
    }
    run(&mut compiler);
    run(&mut Command::new(program))
}

fn our_header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

#[test]
fn values_sizes_and_offsets_are_those_of_debians_header() {
    if !has_pvm() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let theirs = shown_by(folder.path(), "theirs", None);
    let ours = shown_by(folder.path(), "ours", Some(&our_header()));
    assert!(constants().len() > 120, "{}", constants().len());
    assert!(theirs.lines().count() > 150);
    assert_eq!(ours, theirs);
}

/// Functions that a header declares, by a compiler that says what it saw.
fn declared(include: Option<&Path>) -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.c");
    let lines = "#define PVM33COMPAT\n#include <stdio.h>\n#include <pvm3.h>\n";
    std::fs::write(&file, lines).expect("written");
    let list = folder.path().join("list");
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-fsyntax-only", "-w", "-aux-info"])
        .arg(&list)
        .arg(&file);
    if let Some(include) = include {
        compiler.arg("-I").arg(include);
    }
    run(&mut compiler);
    let list = std::fs::read_to_string(list).expect("written");
    let of_pvm = list.lines().filter(|line| line.contains("pvm3.h:"));
    let declarations = of_pvm.filter_map(|line| line.split_once("*/"));
    declarations
        .map(|(_, declaration)| declaration.trim().to_owned())
        .collect()
}

#[test]
fn functions_are_declared_as_in_debians_header() {
    if !has_pvm() {
        return;
    }
    let theirs = declared(None);
    assert!(theirs.len() > 100, "{}", theirs.len());
    assert_eq!(declared(Some(&our_header())), theirs);
}

fn symbols(file: &Path, which: &str) -> BTreeSet<String> {
    let listed = run(Command::new("nm").args(["-D", which]).arg(file));
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    names.map(str::to_owned).collect()
}

/// Is it one of PVM's?
fn is_of_pvm(name: &str) -> bool {
    ["pvm", "Pvm", "lpvm", "i_dump", "gs_"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

/// Programs of the packages that use PVM, as far as they are installed.
fn programs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for package in ["pvm-examples", "pvm", "tablix2", "netpipe-pvm"] {
        let listed = Command::new("dpkg").args(["-L", package]).output();
        let listed = listed
            .map(|output| text(&output.stdout))
            .unwrap_or_default();
        let files = listed.lines().filter(|line| line.contains("/bin/"));
        // The daemon is replaced, too, and scripts are linked to nothing.
        let files = files.filter(|path| !path.ends_with("/pvmd"));
        let elf = files
            .filter(|path| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
        found.extend(elf.map(PathBuf::from));
    }
    found
}

#[test]
fn every_symbol_that_debians_programs_need_is_ours() {
    if !has_pvm() {
        return;
    }
    let ours = symbols(&built().join("libpvm3.so"), "--defined-only");
    let programs = programs();
    assert!(programs.len() > 40, "{programs:?}");
    let mut needed = 0;
    for program in programs {
        let wanted = symbols(&program, "--undefined-only");
        let wanted: BTreeSet<_> = wanted.into_iter().filter(|name| is_of_pvm(name)).collect();
        let missing: Vec<_> = wanted.difference(&ours).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", program.display());
        needed += wanted.len();
    }
    assert!(needed > 500, "{needed}");
}

#[test]
fn libraries_have_the_names_that_programs_ask_for() {
    for (file, name) in [
        ("libpvm3.so", "[libpvm3.so.3]"),
        ("libgpvm3.so", "[libgpvm3.so.3]"),
    ] {
        let listed = run(Command::new("readelf").arg("-d").arg(built().join(file)));
        let line = listed.lines().find(|line| line.contains("SONAME"));
        assert!(line.is_some_and(|line| line.contains(name)), "{line:?}");
    }
}

/// Data that programs have copies of must be as large as it was when they were linked.
#[test]
fn data_symbols_are_as_large_as_debians() {
    let theirs = Path::new("/usr/lib/x86_64-linux-gnu/libpvm3.so.3");
    if !has_pvm() || !theirs.exists() {
        return;
    }
    let sizes = |file: &Path| {
        let listed = run(Command::new("nm")
            .args(["-D", "-S", "--defined-only"])
            .arg(file));
        let rows = listed.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, size, kind, name] = words[..] else {
                return None;
            };
            "BDR"
                .contains(kind)
                .then(|| (name.to_owned(), size.to_owned()))
        });
        rows.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (ours, theirs) = (sizes(&built().join("libpvm3.so")), sizes(theirs));
    let mut compared = 0;
    for (name, size) in &ours {
        if let Some(wanted) = theirs.get(name) {
            assert_eq!(size, wanted, "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 14, "{ours:?}");
}

#[test]
fn program_compiles_with_our_header_and_libraries() {
    let fixture = Fixture::new();
    let source = "#include <stdio.h>\n#include <pvm3.h>\n\
        int main(void) { int tid = pvm_mytid(); pvm_joingroup(\"g\"); \
        printf(\"%d\\n\", pvm_gsize(\"g\") + (tid <= 0)); return pvm_exit(); }\n";
    let file = fixture.folder.path().join("own.c");
    std::fs::write(&file, source).expect("written");
    let program = fixture.folder.path().join("own");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(&file);
    compiler.arg("-I").arg(our_header()).arg("-L").arg(built());
    run(compiler.args(["-lgpvm3", "-lpvm3"]));
    let output = fixture.run(&[program.to_str().expect("plain")], b"");
    assert_eq!(text(&output.stdout), "1\n", "{}", text(&output.stderr));
    assert!(output.status.success());
}
