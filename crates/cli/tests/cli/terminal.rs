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
    owner.json("encrypt rows.csv --format csv-basket");
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
    let text = owner.done(&format!("encrypt {NAME}.csv --format csv-basket"));
    says(&text, &[&format!(" in {SHOWN}.oboro: ")]);
    assert!(owner.path(&format!("{NAME}.oboro")).exists());
}

/// Runs `$oboro keygen --passphrase` on a terminal some times, answers a question with Ctrl-C, and prints how it ended and
/// whether the terminal is as it was.
const AT_A_TERMINAL: &str = r#"
import fcntl, os, pty, subprocess, termios
ours, theirs = pty.openpty()
before = termios.tcgetattr(theirs)
def controlled():
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
command = [os.environ["oboro"], "keygen", "--passphrase"]
ends = dict(stdin=theirs, stdout=theirs, stderr=theirs)
ended = set()
for questions in [1, 2] * 10:
    process = subprocess.Popen(command, preexec_fn=controlled, **ends)
    for question in [b"New passphrase: ", b"Once more: "][:questions]:
        said = b""
        while question not in said:
            said += os.read(ours, 100)
        os.write(ours, b"open")
        if question.startswith(b"New") and questions == 2:
            os.write(ours, b"\n")
    os.write(ours, b"\x03")
    ended.add((process.wait(), termios.tcgetattr(theirs) == before))
print(*ended)
"#;

#[test]
fn a_question_that_is_interrupted_leaves_the_terminal_as_it_was() {
    let owner = Home::new();
    owner.write("terminal.py", AT_A_TERMINAL);
    let ended = owner.start_shell("exec python3 terminal.py").ended();
    assert_eq!(ended.stdout, "(130, True)\n", "{}", ended.stderr);
    assert!(!owner.path("oboro.key").exists());
}
