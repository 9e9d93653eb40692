//! What operators see from outside: metrics, probes, the page, the audit log, and the dashboards and rules that come with
//! Oboro, by a real Prometheus and a real browser where there are these.

use crate::common::http::{Page, get, request};
use crate::common::plaintext::random_baskets;
use crate::common::{Home, Server, says, until};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const MONITOR: &str = "--monitor=127.0.0.1:0";
const MINE: &str = "mine rows.oboro --min-support 10% --answers moments --verify rows.dat";

/// An owner with a token of this name who has uploaded `rows` to an operator's server.
fn uploaded(operator: &Home, server: &Server, name: &str) -> Home {
    let owner = Home::with_key();
    owner.write("token", operator.token(name));
    owner.talk_to(server.url());
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    owner.json("encrypt rows.dat --max-len 2");
    owner.json(&format!(
        "upload rows.oboro --name {name}-rows --token-file token"
    ));
    owner
}

fn mine(owner: &Home, name: &str) {
    owner.json(&format!("{MINE} --name {name}-rows --token-file token"));
}

fn metrics(server: &Server) -> Page {
    let page = get(server.monitor(), "/metrics", &[]);
    assert_eq!(page.status, 200, "{page:?}");
    page
}

#[test]
fn metrics_count_calls_and_name_no_dataset() {
    let operator = Home::new();
    operator.token("first");
    let server = operator.serve(&format!("--tokens tokens {MONITOR} --monitor-namespaces"));
    let ward = uploaded(&operator, &server, "ward");
    mine(&ward, "ward");
    let token = operator.token("other");
    let (begins, last) = token.split_at(token.len() - 1);
    ward.write(
        "wrong",
        format!("{begins}{}", if last == "0" { "1" } else { "0" }),
    );
    ward.run("datasets --token-file wrong");
    let shown = metrics(&server);
    let calls = |call: &str, outcome: &str| {
        let labels = format!("call=\"{call}\",outcome=\"{outcome}\"");
        shown.metric(&format!("oboro_call_duration_seconds_count{{{labels}}}"))
    };
    for call in ["BeginUpload", "SendSegment", "Publish", "Count"] {
        assert!(calls(call, "OK").unwrap() >= 1.0, "{call}");
    }
    assert_eq!(calls("ListDatasets", "UNAUTHENTICATED"), Some(1.0));
    for (name, least) in [
        ("oboro_ready{condition=\"disk\"}", 1.0),
        ("oboro_connections_accepted_total", 3.0),
        ("oboro_callers_refused_total{reason=\"unknown\"}", 1.0),
        ("oboro_panels_total{from=\"storage\"}", 1.0),
        ("oboro_memory_bytes{part=\"panels\"}", 1.0),
        ("oboro_memory_bytes{part=\"moments\"}", 1.0),
        ("oboro_namespace_calls_total{namespace=\"ward\"}", 4.0),
        ("process_open_fds", 4.0),
    ] {
        assert!(shown.metric(name) >= Some(least), "{name}: {}", shown.body);
    }
    let documented = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let families = shown
        .body
        .lines()
        .filter_map(|it| it.strip_prefix("# TYPE "));
    for family in families.map(|it| it.split(' ').next().unwrap()) {
        let is_documented = documented.contains(&format!("`{family}`"));
        assert!(is_documented || family.starts_with("process_"), "{family}");
    }
    for secret in ["rows", "127.0.0.1"] {
        assert!(!shown.body.contains(secret), "{secret}: {}", shown.body);
    }
    let quiet = Home::new();
    let server = quiet.serve(MONITOR);
    assert!(!metrics(&server).body.contains("namespace"));
}

#[test]
fn probes_and_pages_are_for_this_machine_by_its_own_names() {
    let operator = Home::new();
    let server = operator.serve(MONITOR);
    let live = get(server.monitor(), "/livez", &[]);
    assert_eq!((live.status, &*live.body), (200, "ok\n"));
    let ready = get(server.monitor(), "/readyz", &[]);
    assert_eq!(ready.status, 200, "{ready:?}");
    for condition in [
        "serving",
        "disk",
        "audit",
        "descriptors",
        "storage",
        "clock",
    ] {
        says(&ready.body, &[&format!("[+] {condition}\n")]);
    }
    let fewer = get(server.monitor(), "/readyz?exclude=disk,clock", &[]);
    assert!(!fewer.body.contains("disk") && fewer.body.contains("storage"));
    let unknown = get(server.monitor(), "/readyz?exclude=disks", &[]);
    assert_eq!(unknown.status, 400);
    says(&unknown.body, &["no condition \"disks\"", "serving, disk"]);
    let page = get(server.monitor(), "/", &[]);
    assert_eq!(page.status, 200, "{page:?}");
    says(
        &page.headers.to_lowercase(),
        &[
            "content-security-policy: default-src 'none'",
            "cache-control: no-store",
        ],
    );
    assert!(!page.body.contains("<script"));
    let connect = || TcpStream::connect(server.monitor()).unwrap();
    // A name that somebody else made to mean this machine.
    for path in ["/", "/metrics", "/readyz"] {
        let led = request(connect(), &format!("GET {path}"), "oboro.example:7172", &[]);
        assert_eq!(led.status, 421, "{led:?}");
    }
    // Silent connections block no others.
    let silent: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    assert_eq!(get(server.monitor(), "/livez", &[]).status, 200);
    drop(silent);
    assert_eq!(request(connect(), "GET /", "[::1]:7172", &[]).status, 200);
    assert_eq!(request(connect(), "POST /", "localhost", &[]).status, 405);
    assert_eq!(get(server.monitor(), "/datasets", &[]).status, 404);
}

#[test]
fn caller_and_log_name_a_call_alike() {
    let operator = Home::new();
    let server = operator.serve("");
    let owner = Home::new();
    owner.talk_to(server.url());
    let message = owner.refused("delete nothing --yes");
    let (_, number) = message.split_once("(request ").unwrap();
    let number = number.trim_end_matches(')').to_owned();
    until("it is logged", || {
        let log = server.log();
        let line = log.lines().find(|it| it.contains(&number))?;
        assert!(line.contains("DeleteDataset"), "{line}");
        Some(())
    });
}

#[test]
fn the_audit_log_has_who_did_what_to_which_dataset() {
    let operator = Home::new();
    operator.token("first");
    let server = operator.serve(&format!(
        "--tokens tokens {MONITOR} --audit-log audit.jsonl"
    ));
    let ward = uploaded(&operator, &server, "ward");
    mine(&ward, "ward");
    ward.json("delete ward-rows --yes --token-file token");
    let lines = || -> Vec<Value> {
        let text = String::from_utf8(operator.read("audit.jsonl")).unwrap();
        let lines = text.lines().map(|it| serde_json::from_str(it).unwrap());
        lines.collect()
    };
    let deleted = until("the deletion is there", || {
        lines().into_iter().find(|it| it["call"] == "DeleteDataset")
    });
    assert_eq!(deleted["caller"], "ward");
    assert_eq!(deleted["name"], "ward-rows");
    assert_eq!(deleted["outcome"], "Ok");
    assert_eq!(deleted["detail"]["now"], false);
    let ids = operator.json("token list");
    let id = ids
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "ward");
    assert_eq!(deleted["token"], id.unwrap()["id"]);
    for call in ["BeginUpload", "SendSegment", "Publish", "Count"] {
        let line = lines().into_iter().find(|it| it["call"] == call).unwrap();
        assert_eq!(line["caller"], "ward", "{line}");
        assert_eq!(line["dataset"], deleted["dataset"], "{line}");
    }
    let mode = fs::metadata(operator.path("audit.jsonl"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // Where nothing can be noted nothing is done.
    fs::rename(operator.path("audit.jsonl"), operator.path("before.jsonl")).unwrap();
    fs::create_dir(operator.path("audit.jsonl")).unwrap();
    ward.run("datasets --token-file token");
    until("the log is known to fail", || {
        (get(server.monitor(), "/readyz", &[]).status == 503).then_some(())
    });
    let ready = get(server.monitor(), "/readyz", &[]);
    says(
        &ready.body,
        &["[-] audit: the audit log cannot be written", "[+] disk"],
    );
    assert_eq!(
        get(server.monitor(), "/readyz?exclude=audit", &[]).status,
        200
    );
    let refused = ward.start("undelete ward-rows --token-file token");
    until("a call is refused", || {
        server.log().contains("Unavailable").then_some(())
    });
    fs::remove_dir(operator.path("audit.jsonl")).unwrap();
    let ended = refused.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    says(&ended.stderr, &["the server is busy; trying again in"]);
    until("the call is in the log", || {
        lines()
            .into_iter()
            .find(|it| it["call"] == "UndeleteDataset")
    });
}

/// Writes a certificate for this machine and its key; returns what trusts it.
fn certify(operator: &Home) -> Arc<ClientConfig> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    operator.write("tls.crt", cert.pem());
    operator.write("tls.key", signing_key.serialize_pem());
    let owner_only = Permissions::from_mode(0o600);
    fs::set_permissions(operator.path("tls.key"), owner_only).unwrap();
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

const TLS: &str = "--tls-cert tls.crt --tls-key tls.key";

#[test]
fn beyond_loopback_metrics_are_for_operators_and_pages_for_their_owners() {
    let operator = Home::new();
    operator.token("first");
    let everywhere = "--monitor=0.0.0.0:0";
    let serve = "serve --data data --listen 127.0.0.1:0";
    let refused = operator
        .run(&format!("{serve} {everywhere} --tokens tokens"))
        .refusal();
    says(
        &refused,
        &["refusing to show metrics", "--monitor", "--tls-cert"],
    );
    let trust = certify(&operator);
    let server = operator.serve(&format!("--tokens tokens {TLS} {everywhere}"));
    let ask = |path: &str, token: Option<&str>| {
        let near = (std::net::Ipv4Addr::LOCALHOST, server.monitor().port());
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::clone(&trust), name).unwrap();
        let stream = StreamOwned::new(tls, TcpStream::connect(near).unwrap());
        let bearer = token.map(|it| format!("Authorization: Bearer {it}"));
        request(
            stream,
            &format!("GET {path}"),
            "localhost",
            &bearer.iter().map(|it| &**it).collect::<Vec<_>>(),
        )
    };
    let watcher = operator.json("token new watcher --role operate");
    let watcher = watcher["token"].as_str().unwrap();
    let [alice, bob] = ["alice", "bob"].map(|name| {
        let owner = Home::with_key();
        owner.copy_from(&operator, "tls.crt");
        let token = operator.token(name);
        owner.write("token", &token);
        owner.talk_to(&server.url().replace("127.0.0.1", "localhost"));
        owner.write_fimi("rows.dat", &random_baskets(60, 5, 128));
        owner.json("encrypt rows.dat --max-len 2");
        let options = "--token-file token --ca tls.crt";
        owner.json(&format!("upload rows.oboro --name of-{name} {options}"));
        token
    });
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(path, None).status, 200);
    }
    for path in ["/", "/metrics"] {
        for token in [None, Some("oboro-0"), Some("")] {
            let refused = ask(path, token);
            assert_eq!(refused.status, 401, "{refused:?}");
            says(
                &refused.headers.to_lowercase(),
                &["www-authenticate: basic"],
            );
        }
    }
    assert_eq!(ask("/metrics", Some(&alice)).status, 403);
    assert_eq!(ask("/metrics", Some(watcher)).status, 200);
    for (token, own, other) in [(&alice, "of-alice", "bob"), (&bob, "of-bob", "alice")] {
        let page = ask("/", Some(token));
        assert_eq!(page.status, 200);
        says(&page.body, &[own, "Queries in progress", "Conditions"]);
        for hidden in [other, "watcher", "Namespaces", "disk free"] {
            assert!(!page.body.contains(hidden), "{hidden}: {}", page.body);
        }
    }
    let page = ask("/", Some(watcher));
    says(&page.body, &["Namespaces", "disk free", "alice", "bob"]);
    for name in ["of-alice", "of-bob"] {
        assert!(
            !page.body.contains(name),
            "operators need no names of datasets"
        );
    }
    // Who is revoked is out at once.
    operator.done("token revoke alice");
    assert_eq!(ask("/", Some(&alice)).status, 401);
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether a program is here; says so if not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no {program}; scripts/setup {program} installs it");
    }
    found
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Prometheus that scrapes a server twice a second, and evaluates the rules as often.
struct Prometheus {
    _process: Killed,
    address: SocketAddr,
}

impl Prometheus {
    fn start(home: &Home, server: &Server) -> Self {
        let config = format!(
            "global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}\nrule_files: [{}]\nscrape_configs: [{{ job_name: oboro, static_configs: [{{ targets: [\"{}\"] }}] }}]\n",
            root()
                .join("deploy/prometheus/oboro.rules.yml")
                .canonicalize()
                .unwrap()
                .display(),
            server.monitor()
        );
        home.write("prometheus.yml", config);
        // Nothing else takes it in between, but another test on the machine: then it is said.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let log = fs::File::create(home.path("prometheus.log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                home.path("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                home.path("prometheus").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let started = Self {
            _process: Killed(process),
            address,
        };
        until("Prometheus has scraped", || {
            TcpStream::connect(address).ok()?;
            let up = started.query("up{job=\"oboro\"} == 1")?;
            (up > 0).then_some(())
        });
        started
    }

    /// How many series an expression returns; `None` as long as the server is not ready.
    fn query(&self, expression: &str) -> Option<usize> {
        Some(self.series(expression)?.len())
    }

    /// The series that an expression returns.
    fn series(&self, expression: &str) -> Option<Vec<Value>> {
        let query: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let page = chunked(self.address, &format!("/api/v1/query?query={query}"))?;
        let answer: Value = serde_json::from_str(&page).ok()?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }
}

/// The body of a page that has no length.
fn chunked(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let asked = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    std::io::Write::write_all(&mut stream, asked.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    head.split(' ')
        .nth(1)?
        .starts_with('2')
        .then(|| body.to_owned())
}

/// The expressions of the dashboard's panels, with what Grafana fills in.
fn panels() -> Vec<String> {
    let dashboard = fs::read(root().join("deploy/grafana/oboro.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|it| it["targets"].as_array());
    let expressions = targets.flatten().map(|it| it["expr"].as_str().unwrap());
    expressions
        .map(|it| {
            it.replace("$instance", ".*")
                .replace("$__rate_interval", "1m")
        })
        .collect()
}

/// The expressions of the rules; of an alert what it compares with a number.
fn rules() -> Vec<String> {
    let rules = root().join("deploy/prometheus/oboro.rules.yml");
    let shown = Command::new("promtool")
        .args(["check", "rules"])
        .arg(&rules)
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let text = fs::read_to_string(rules).unwrap();
    // Expressions stand in one line, or in lines after `>-`, until the next key.
    let mut expressions: Vec<String> = Vec::new();
    let mut is_folded = false;
    for line in text.lines().map(str::trim) {
        let is_key = [
            "- ",
            "for:",
            "labels:",
            "annotations:",
            "summary:",
            "record:",
        ]
        .iter()
        .any(|key| line.starts_with(key));
        if let Some(expression) = line.strip_prefix("expr:") {
            is_folded = expression.trim() == ">-";
            let expression = if is_folded { "" } else { expression.trim() };
            expressions.push(expression.to_owned());
        } else if is_key || line.is_empty() {
            is_folded = false;
        } else if is_folded {
            let last = expressions.last_mut().unwrap();
            *last += &format!(" {line}");
        }
    }
    let compared = |expression: String| {
        let words: Vec<&str> = expression.rsplitn(3, ' ').collect();
        match words[..] {
            [number, "<" | ">", rest] if number.parse::<f64>().is_ok() => rest.to_owned(),
            _ => expression,
        }
    };
    expressions.into_iter().map(compared).collect()
}

#[test]
fn every_alert_fires_when_it_should() {
    let read = |name: &str| fs::read_to_string(root().join("deploy/prometheus").join(name));
    let [rules, tests] = ["oboro.rules.yml", "oboro.rules.test.yml"].map(|it| read(it).unwrap());
    let alerts = rules.lines().map(str::trim);
    for alert in alerts.filter_map(|it| it.strip_prefix("- alert: ")) {
        let test = format!("alertname=\"{alert}\"");
        assert!(tests.contains(&test), "{alert} is not tested");
    }
    if !has("promtool") {
        return;
    }
    let tests = root().join("deploy/prometheus/oboro.rules.test.yml");
    let tested = Command::new("promtool")
        .args(["test", "rules"])
        .arg(tests)
        .output();
    let tested = tested.unwrap();
    assert!(tested.status.success(), "{tested:?}");
}

#[test]
fn every_panel_and_rule_has_series_when_prometheus_scrapes_a_busy_server() {
    if !has("prometheus") || !has("promtool") {
        return;
    }
    let operator = Home::new();
    operator.token("first");
    certify(&operator);
    fs::create_dir(operator.path("objects")).unwrap();
    let objects = format!("file://{}", operator.path("objects").display());
    let options = format!("--cache cache --tokens tokens {TLS} {MONITOR} --monitor-namespaces");
    let server = operator.serve_from(&objects, &options);
    let prometheus = Prometheus::start(&operator, &server);
    let owner = Home::with_key();
    owner.copy_from(&operator, "tls.crt");
    owner.write("token", operator.token("ward"));
    owner.talk_to(&server.url().replace("127.0.0.1", "localhost"));
    owner.write_fimi("rows.dat", &random_baskets(300, 6, 128));
    owner.json("encrypt rows.dat --max-len 2");
    let options = "--token-file token --ca tls.crt";
    owner.json(&format!("upload rows.oboro {options}"));
    let (panels, rules) = (panels(), rules());
    assert!(
        panels.len() > 40 && rules.len() > 12,
        "{panels:?} {rules:?}"
    );
    for expression in panels.iter().chain(&rules) {
        until(expression, || {
            if prometheus.query(expression)? > 0 {
                return Some(());
            }
            owner.json(&format!("{MINE} {options}"));
            None
        });
    }
    let metrics = metrics(&server).body;
    owner.write("metrics", metrics);
    let checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(fs::File::open(owner.path("metrics")).unwrap())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// From docs/operations.md: a machine is lost, its backup is served by another, and one of its tenants is too loud.
#[test]
fn an_operators_drill() {
    let lost = Home::new();
    lost.token("first");
    let server = lost.serve("--tokens tokens");
    let [quiet, loud] = ["quiet", "loud"].map(|name| uploaded(&lost, &server, name));
    lost.done("backup data copy");
    server.kill();

    let machine = Home::new();
    machine.copy_tree(&lost, "copy");
    machine.copy_from(&lost, "tokens");
    let settings = "data = 'copy'\ntokens = 'tokens'\nlisten = '127.0.0.1:0'\nmonitor = '127.0.0.1:0'\n\
                    monitor-namespaces = true\naudit-log = 'audit.jsonl'\nmoment-cache = 0\nmax-calls-per-second = 10000\n";
    machine.write("oboro.toml", settings);
    machine.json("scrub copy");
    machine.json("serve --check-config --config oboro.toml");
    let server = machine.serve_with("--config oboro.toml");
    assert_eq!(get(server.monitor(), "/readyz", &[]).status, 200);
    for (owner, name) in [(&quiet, "quiet"), (&loud, "loud")] {
        owner.talk_to(server.url());
        mine(owner, name);
    }
    if !has("prometheus") {
        return;
    }
    let prometheus = Prometheus::start(&machine, &server);
    let panel = panels()
        .into_iter()
        .find(|it| it.contains("oboro_namespace_compute_seconds"));
    let panel = panel
        .unwrap()
        .replace("[1m]", "[10s]")
        .replace("topk(10", "topk(1");
    until("the dashboard names the loud one", || {
        mine(&loud, "loud");
        let loudest = prometheus.series(&panel)?;
        (loudest.first()?["metric"]["namespace"] == "loud").then_some(())
    });
    let listed = String::from_utf8(machine.read("audit.jsonl")).unwrap();
    assert!(listed.lines().filter(|it| it.contains("\"loud\"")).count() > 1);
}

#[test]
fn a_browser_shows_the_page() {
    if !has("chromium") {
        return;
    }
    let operator = Home::new();
    let token = operator.token("first");
    let server = operator.serve(&format!("--tokens tokens {MONITOR}"));
    mine(&uploaded(&operator, &server, "ward"), "ward");
    let ward = operator.token("ward");
    let browse = |who: &str, token: &str, what: &[&str]| {
        let profile = operator.path(&format!("profile-{who}"));
        let ran = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--window-size=1000,1000",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(what)
            .arg(format!("http://any:{token}@{}/", server.monitor()))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    for (who, token, is_there) in [("ward", &ward, true), ("first", &token, false)] {
        let seen = browse(who, token, &["--dump-dom"]);
        assert_eq!(seen.contains("ward-rows"), is_there, "{seen}");
        says(&seen, &["<h2>Datasets</h2>", who]);
    }
    // `OBORO_SCREENSHOTS` keeps them to be looked at.
    let kept = std::env::var("OBORO_SCREENSHOTS").map(PathBuf::from);
    let file = kept
        .unwrap_or_else(|_| operator.path(""))
        .join("status.png");
    browse(
        "ward",
        &ward,
        &[&format!("--screenshot={}", file.display())],
    );
    let image = fs::read(file).unwrap();
    assert!(
        image.starts_with(b"\x89PNG") && image.len() > 10_000,
        "{}",
        image.len()
    );
}
