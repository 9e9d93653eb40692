//! Text output: itemsets show where names begin and end, and names cannot inject terminal escapes.

use crate::common::{Home, Server, says};
use serde_json::{Value, json};
use std::fs;

/// An owner with `rows.csv`, uploaded, and `found.json`, mined; its server.
fn mined(rows: &str) -> (Home, Home, Server) {
    let (owner, operator) = (Home::with_key(), Home::new());
    let server = operator.serve("");
    owner.talk_to(server.url());
    owner.write("rows.csv", rows);
    owner.json("encrypt rows.csv --format csv-basket --unicode as-is");
    owner.json("upload rows.oboro");
    owner.json(&format!("{MINE} --out found.json"));
    (owner, operator, server)
}

const MINE: &str = "mine rows.oboro --min-support 1";

#[test]
fn itemsets_show_where_names_begin_and_end() {
    let (owner, _operator, _server) = mined("Käse,\"Milch, 3,5%\",Butter\nKäse,Butter\n");
    let text = owner.done(MINE);
    says(&text, &["      1  {Butter, Käse, \"Milch, 3,5%\"}\n"]);
    says(&text, &["      2  {Butter, Käse}\n"]);
    let rules = owner.done("rules found.json");
    says(&rules, &["  {Käse, \"Milch, 3,5%\"} => {Butter}\n"]);
    // In JSON, names are unchanged.
    let rules = owner.json("rules found.json");
    let sides = |rule: &Value| (rule["antecedents"].clone(), rule["consequents"].clone());
    let sought = (json!(["Käse", "Milch, 3,5%"]), json!(["Butter"]));
    let mut rules = rules["rules"].as_array().unwrap().iter();
    assert!(rules.any(|it| sides(it) == sought));
}

#[test]
fn names_do_not_steer_the_terminal() {
    const NAME: &str = "\u{1b}[31mred\u{9b}2J\u{202e}";
    const SHOWN: &str = r"\u{1b}[31mred\u{9b}2J\u{202e}";
    let (owner, _operator, _server) = mined("red\u{202e},tea\nred\u{202e}\n");
    let steers =
        |text: &str| text.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}'));
    for line in [MINE, "rules found.json --min 0"] {
        let text = owner.done(line);
        says(&text, &[r#"{"red\u{202e}""#]);
        assert!(!steers(&text), "{text:?}");
    }
    // Tables with control characters in names are refused, but a file of itemsets may have them.
    owner.write("control.csv", format!("{NAME},tea\n{NAME}\n"));
    let message = owner.refused("encrypt control.csv --format csv-basket");
    says(&message, &[SHOWN, "take it out of the file"]);
    let itemsets = [json!([NAME]), json!(["tea"]), json!([NAME, "tea"])];
    let itemsets = itemsets.map(|items| json!({ "items": items, "support": 2 }));
    let document =
        json!({ "transactions": 2, "min_support": 1, "max_len": null, "itemsets": itemsets });
    owner.write("control.json", document.to_string());
    let rules = "rules control.json --min 0";
    let text = owner.done(rules);
    says(&text, &[&format!("{{\"{SHOWN}\"}}")]);
    assert!(!steers(&text), "{text:?}");
    let found = owner.json(rules);
    let mut rules = found["rules"].as_array().unwrap().iter();
    assert!(rules.any(|it| it["antecedents"] == json!([NAME])));

    // From the environment, which help would show.
    owner.set("OBORO_SERVER", NAME);
    assert!(!owner.done("mine --help").contains('\u{9b}'));
    owner.unset("OBORO_SERVER");

    // File names, in failures, in usage errors and in results.
    let message = owner.refused(&format!("encrypt {NAME}.dat"));
    says(&message, &[&format!("{SHOWN}.dat")]);
    let message = owner.misused(&format!("encrypt rows.csv {NAME}"));
    says(
        &message,
        &[&format!("unexpected argument found: '{SHOWN}'")],
    );
    fs::rename(owner.path("rows.csv"), owner.path(&format!("{NAME}.csv"))).unwrap();
    let text = owner.done(&format!(
        "encrypt {NAME}.csv --format csv-basket --unicode as-is"
    ));
    says(&text, &[&format!(" in {SHOWN}.oboro: ")]);
    assert!(owner.path(&format!("{NAME}.oboro")).exists());
}

/// Answers the questions of `$oboro keygen --passphrase` on a terminal, once it shows nothing: `run` gives how it ended,
/// whether the terminal is as it was with nothing typed left, and what it showed.
const AT_A_TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, subprocess, sys, termios
ours, theirs = pty.openpty()
before = termios.tcgetattr(theirs)
def controlled():
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    # Whatever runs the tests may ignore them.
    for number in [signal.SIGINT, signal.SIGHUP]:
        signal.signal(number, signal.SIG_DFL)
def shown(until):
    said = b""
    while until not in said:
        said += os.read(ours, 100)
    return said
def is_left():
    lineless = termios.tcgetattr(theirs)
    lineless[3] &= ~termios.ICANON
    termios.tcsetattr(theirs, termios.TCSANOW, lineless)
    readable, _, _ = select.select([theirs], [], [], 0)
    termios.tcsetattr(theirs, termios.TCSAFLUSH, before)
    return bool(readable)
command = [os.environ["oboro"], "keygen", "--passphrase"]
def run(*answers):
    ends = dict(stdin=theirs, stdout=theirs, stderr=theirs)
    process = subprocess.Popen(command, preexec_fn=controlled, **ends)
    said = b""
    for question, answer in zip([b"New passphrase: ", b"Once more: "], answers):
        said += shown(question)
        while termios.tcgetattr(theirs)[3] & termios.ECHO:
            pass
        os.write(ours, answer)
    code = process.wait()
    is_as_before = termios.tcgetattr(theirs) == before and not is_left()
    os.write(theirs, b"<end>")
    return code, is_as_before, said + shown(b"<end>")
"#;

/// What the script prints after the functions above.
fn at_a_terminal(owner: &Home, lines: &str) -> String {
    owner.write("terminal.py", format!("{AT_A_TERMINAL}{lines}"));
    let ended = owner.start_shell("exec python3 terminal.py").ended();
    assert!(!ended.stdout.contains("secret"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[test]
fn a_question_that_is_interrupted_leaves_the_terminal_as_it_was() {
    let owner = Home::new();
    let each = r#"
runs = [run(*answers) for answers in [(b"secret\x03",), (b"secret\n", b"secret\x03")] * 10]
print({run[:2] for run in runs}, {run[2] for run in runs})
"#;
    let text = at_a_terminal(&owner, each);
    assert!(text.starts_with("{(130, True)} {"), "{text}");
    assert!(!owner.path("oboro.key").exists());
}

#[test]
fn a_question_in_the_background_ends_by_a_signal() {
    let owner = Home::new();
    let each = r#"
shell = f"""
import os, subprocess
process = subprocess.Popen({command}, process_group=0)
os.waitpid(process.pid, os.WUNTRACED)
process.terminate()
process.send_signal({signal.SIGCONT})
print(process.wait(10))
"""
print(subprocess.check_output([sys.executable, "-c", shell], preexec_fn=controlled, stdin=theirs, text=True))
"#;
    assert_eq!(at_a_terminal(&owner, each), "-15\n\n");
}

#[test]
fn an_answer_is_not_shown_and_a_wrong_one_is_refused_for_what_it_is() {
    let owner = Home::new();
    let each = r#"
for answers in [(b"\x04",), (b"\n", b"\n"), (b"secret\n", b"secrets\n"), (b"\xff\n",), (b"secret\x1a\x1c\r", b"secret\x1a\x1c\r")]:
    print(*run(*answers))
"#;
    let text = at_a_terminal(&owner, each);
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        ("3 True", "give it in a file instead"),
        ("1 True", "the passphrases differ or are empty"),
        ("1 True", "the passphrases differ or are empty"),
        ("3 True", "it is not UTF-8"),
        ("0 True", "oboro.key"),
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, (ended, said)) in lines.iter().zip(expected) {
        assert!(line.starts_with(ended) && line.contains(said), "{line}");
    }
    assert!(owner.path("oboro.key").exists());
}
