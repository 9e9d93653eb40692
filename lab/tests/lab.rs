//! `oboro-lab` end to end on small shapes.

mod common;

use common::{Home, says, until};
use serde_json::{Value, json};
use std::fs;

const SHAPE: &str = "support --items 5 --transactions 9000 --threads 2 --runs 2";

/// A home whose temporary files lie in `tmp`.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir(home.path("tmp")).unwrap();
    home.set("TMPDIR", home.path("tmp").to_str().unwrap());
    home
}

/// The JSON values of a run that must succeed, one per line.
fn lines(home: &Home, line: &str) -> Vec<Value> {
    let text = home.done(&format!("{line} --json"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn words(home: &Home, name: &str) -> Vec<u64> {
    let bytes = home.read(name);
    let (words, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    words.iter().map(|&word| u64::from_le_bytes(word)).collect()
}

#[test]
fn support_counts_what_is_there_and_reports_it() {
    let home = home();
    fs::create_dir(home.path("out")).unwrap();
    let printed = lines(&home, &format!("{SHAPE} --export out"));
    let (summary, runs) = printed.split_last().unwrap();

    let numbers: Vec<_> = runs
        .iter()
        .map(|run| run["run"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
    for run in runs {
        assert_eq!(run["response_bytes"], summary["response_bytes"]);
    }

    let expected: [(&str, Value); 13] = [
        ("bench", "support".into()),
        ("items", 5.into()),
        ("transactions", 9000.into()),
        ("max_len", 2.into()),
        ("itemsets", 10.into()),
        ("runs", 2.into()),
        ("threads", 2.into()),
        ("verified", true.into()),
        ("bit_matrix_bytes", 5625.into()),
        // Three blocks of 4096 slots, two limbs: 28 bits each on disk, 32 in memory.
        ("expanded_bytes", (5 * 3 * 4096 * 2 * 4).into()),
        // Ten pairs, whose sums are verified: 7 bytes each.
        ("multiply_adds", (10 * 3 * 4096 * 2).into()),
        ("verified_by", "scalars".into()),
        ("response_bytes", 70.into()),
    ];
    for (field, value) in expected {
        assert_eq!(summary[field], value, "{field}");
    }
    let at_least = |field: &str, least: f64| {
        let value = summary[field]
            .as_f64()
            .unwrap_or_else(|| panic!("{field}: {summary}"));
        assert!(value >= least, "{field} is {value}, below {least}");
    };
    at_least("stored_bytes", 5.0 * 3.0 * 4096.0 * 2.0 * 3.5);
    at_least("peak_server_bytes", 5.0 * 3.0 * 4096.0 * 2.0 * 4.0);
    at_least("owner_bytes", 10.0 * 8.0);
    for field in [
        "generate_seconds",
        "encrypt_seconds",
        "upload_seconds",
        "first_query_seconds",
        "query_seconds",
        "server_seconds",
        "client_decrypt_seconds",
        "server_exit_seconds",
        "native_bitmap_seconds",
        "gmacs_per_second",
    ] {
        at_least(field, 0.0);
    }
    assert!(!summary["cpu"].as_str().unwrap().is_empty());

    let columns = words(&home, "out/columns.u64");
    let columns: Vec<&[u64]> = columns.chunks_exact(9000_usize.div_ceil(64)).collect();
    assert_eq!(columns.len(), 5);
    let common = |a: &[u64], b: &[u64]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| u64::from((a & b).count_ones()))
            .sum()
    };
    let pairs: Vec<u64> = (0..5)
        .flat_map(|a| (a + 1..5).map(move |b| (a, b)))
        .map(|(a, b)| common(columns[a], columns[b]))
        .collect();
    assert_eq!(words(&home, "out/supports.u64"), pairs);
    assert!(pairs.iter().all(|&support| support > 0));

    let left = fs::read_dir(home.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files are left behind");
}

#[test]
fn support_speaks_to_people() {
    let home = home();
    let text = home.done(&format!("{SHAPE} --max-len 3"));
    says(
        &text,
        &[
            "warm-up",
            "run 2",
            "10 itemsets of length 3",
            "all supports equal the plaintext's",
        ],
    );
}

#[test]
fn support_measures_a_server_with_little_memory() {
    let printed = lines(&home(), &format!("{SHAPE} --memory 512MiB"));
    assert_eq!(printed.last().unwrap()["verified"], true);
}

#[test]
fn support_refuses_what_it_cannot_measure() {
    let home = home();
    says(
        &home.refused(&format!("{SHAPE} --max-len 6")),
        &["choose 1 to 5"],
    );
    says(
        &home.refused(&format!("{SHAPE} --max-len 0")),
        &["choose 1 to 5"],
    );
    says(
        &home.refused("support --items 5000 --transactions 10"),
        &["more than 1000000 itemsets", "fewer --items"],
    );
    says(
        &home.refused("support --items 5 --transactions 0"),
        &["the number of transactions is 0"],
    );
    says(
        &home.refused(&format!("{SHAPE} --export nowhere")),
        &["make the directory first"],
    );
    home.write("columns.u64", "mine");
    says(
        &home.refused(&format!("{SHAPE} --export .")),
        &["exists already"],
    );
    home.misused(&format!("{SHAPE} --runs 0"));
    home.set("TMPDIR", "nowhere");
    says(&home.refused(SHAPE), &["set TMPDIR"]);
}

/// The lines and the summary of the NUMA bench, as quick as possible.
fn numa(options: &str) -> (Vec<Value>, Value) {
    let home = home();
    let mut printed = lines(
        &home,
        &format!("numa --quick --loops 1 --threads 2 {options}"),
    );
    let summary = printed.pop().unwrap();
    let left = fs::read_dir(home.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files are left behind");
    (printed, summary)
}

#[test]
fn numa_adds_arrays_near_and_far() {
    let (rows, summary) = numa("--part add-array");

    let shape = |row: &Value| {
        let number = |field: &str| row[field].as_u64().unwrap();
        let table = row["table"].as_str().unwrap().to_owned();
        (table, number("elements"), number("stride"))
    };
    let sizes = [1000, 10_000, 100_000, 1_000_000].map(|n| ("3-1".to_owned(), n, 1));
    let strides = [1, 10, 100, 1000, 10_000];
    let at_most = |table: &'static str| strides.map(|s| (table.to_owned(), 1_000_000, s));
    let expected = [&sizes[..], &at_most("3-2"), &at_most("3-3")].concat();
    assert_eq!(rows.iter().map(shape).collect::<Vec<_>>(), expected);

    for row in &rows {
        assert_eq!(row["verified"], true, "{row}");
        for case in ["ocr", "worst", "best"] {
            let mean = row["nanoseconds"][case].as_u64().unwrap();
            assert!(mean > 0, "{row}");
            assert_eq!(row["least_nanoseconds"][case], mean, "one loop: {row}");
            assert_eq!(row["loops"][case], 1);
        }
    }
    assert_eq!(rows[3]["paper"]["elements"], 1_000_000);
    assert_eq!(rows[3]["paper"]["kilocycles"]["best"], 4600);
    assert_eq!(
        (&rows[8]["flush"], &rows[9]["flush"]),
        (&"each_stride".into(), &"each_loop".into())
    );

    assert_eq!(summary["bench"], "numa");
    assert_eq!(summary["verified"], true);
    let figures = &summary["add_array"];
    assert_eq!(figures["misplaced_bytes"], 0);
    assert_eq!(figures["tables"]["3-2"].as_array().unwrap()[..], rows[4..9]);
    let coincide = figures["nodes"]["best"] == figures["nodes"]["worst"];
    assert_eq!(figures["cases_coincide"], coincide);
    let notes = figures["notes"].to_string();
    assert_eq!(notes.contains("one NUMA node only"), coincide, "{notes}");
}

/// A program that reports like lab/bench/numa_library.py, of half of the transactions.
fn library(home: &Home, verified: bool) -> String {
    let report = format!(
        r#"{{"seconds": 20.0, "measured_fraction": 0.5, "products": 7, "near_share": 1.0, "verified": {verified}}}"#
    );
    let asked = home.path("asked");
    let script = format!("echo \"$@\" >> {}\necho '{report}'\n", asked.display());
    home.write("library", &script);
    format!("/bin/sh {}", home.path("library").display())
}

#[test]
fn numa_counts_with_every_placement_in_turn() {
    let home = home();
    let program = library(&home, true);
    let (rows, summary) = numa(&format!("--part counting --library {program}"));

    let (oboro, ordinary) = ("Oboro, fcmalloc", "SEAL, system malloc");
    let runs: Vec<&Value> = rows.iter().filter(|row| row["table"] == "6-3").collect();
    let turn = |row: &&Value| {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        (
            row["run"].as_u64().unwrap(),
            text("placement"),
            text("library"),
        )
    };
    let expected: Vec<_> = (1..=3)
        .flat_map(|run| ["item", "transaction", "random"].map(|placement| (run, placement)))
        .flat_map(|(run, placement)| {
            [oboro, ordinary].map(|library| (run, placement.to_owned(), library.to_owned()))
        })
        .collect();
    assert_eq!(runs.iter().map(turn).collect::<Vec<_>>(), expected);
    for run in &runs {
        assert_eq!(run["verified"], true, "{run}");
        assert!(run["seconds"].as_f64().unwrap() > 0.0, "{run}");
    }
    let asked = String::from_utf8(home.read("asked")).unwrap();
    let asked: Vec<&str> = asked.lines().collect();
    assert_eq!(asked.len(), 9);
    assert_eq!(
        asked[1],
        "--way temporaries --placement transaction --items 18 --transactions 114688 --threads 2"
    );

    let figures = &summary["table_6_3"];
    let table = figures["rows"].as_array().unwrap();
    assert_eq!(table.len(), 6);
    assert_eq!(table[0]["library"], ordinary);
    assert_eq!(table[0]["seconds"], 20.0);
    assert_eq!(table[0]["measured_fraction"], 0.5);
    assert_eq!(table[0]["paper_seconds"], 521.6);
    assert_eq!(table[4]["library"], oboro);
    assert_eq!(table[4]["placement"], "transaction");
    assert_eq!(table[4]["paper_seconds"], 7.775);
    assert_eq!(table[4]["measured_fraction"], 1.0);
    let mut times: Vec<f64> = runs
        .iter()
        .filter(|run| run["library"] == oboro && run["placement"] == "transaction")
        .map(|run| run["seconds"].as_f64().unwrap())
        .collect();
    times.sort_by(f64::total_cmp);
    assert_eq!(table[4]["seconds"], times[1], "the middle one of three");

    let coincide = summary["nodes"] == 1;
    assert_eq!(figures["placements_coincide"], coincide);
    let notes = figures["notes"].to_string();
    assert_eq!(
        notes.contains("there is one NUMA node"),
        coincide,
        "{notes}"
    );
    assert!(!notes.contains("--library"), "{notes}");
}

#[test]
fn numa_counts_reads_by_node() {
    let (rows, summary) = numa("--nodes 3 --part traffic");
    let traffic: Vec<&Value> = rows
        .iter()
        .filter(|row| row["bench"] == "numa traffic")
        .collect();
    assert_eq!(summary["traffic"].as_array().unwrap().len(), traffic.len());
    let placements: Vec<_> = traffic.iter().map(|row| row["placement"].clone()).collect();
    assert_eq!(placements, ["transaction", "item", "random", "interleave"]);
    let bytes =
        |row: &Value| -> Vec<Vec<u64>> { serde_json::from_value(row["traffic"].clone()).unwrap() };
    let all = |row: &Value| bytes(row).iter().flatten().sum::<u64>();
    for row in &traffic {
        assert_eq!((&row["nodes"], &row["groups"]), (&3.into(), &12.into()));
        assert_eq!(row["logical"], summary["nodes"] != 3);
        assert_eq!(row["stolen_needlessly"], 0);
        // 18 columns and the mask: twelve groups of twelve blocks of 1024 residues.
        assert_eq!(row["ciphertext_bytes"], 19 * 12 * 12 * 1024 * 4);
        assert_eq!(row["multiply_adds"], (153 + 18 + 1) * 12 * 12 * 1024);
        assert!(
            all(row) >= row["ciphertext_bytes"].as_u64().unwrap(),
            "{row}"
        );
        assert_eq!(all(row), all(traffic[0]), "placement changes no work");
    }
    if traffic[0]["logical"] == true {
        // Nodes of equal speed have no reason to steal evenly dealt tasks.
        assert_eq!(traffic[0]["stolen"], 0);
        let near = bytes(traffic[0]);
        let is_near = |(reader, row): (usize, &Vec<u64>)| row[reader] == row.iter().sum::<u64>();
        assert!(near.iter().enumerate().all(is_near), "{near:?}");
    }
    for row in bytes(traffic[3]) {
        assert!(
            row.iter().all(|&bytes| bytes == row[0]),
            "interleaved: {row:?}"
        );
    }
    assert!(summary["table_6_3"].is_null(), "only what was asked for");
}

#[test]
fn numa_runs_the_papers_rules_and_places_windows() {
    let (rows, summary) = numa("--part products,tasks,genome --nodes 4");
    assert_eq!(summary["verified"], true);
    let of =
        |bench: &str| -> Vec<&Value> { rows.iter().filter(|row| row["bench"] == bench).collect() };
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap();

    let products = of("numa products");
    assert_eq!(
        number(products[1], "products"),
        2 * number(products[1], "products_cached")
    );

    let tasks = of("numa tasks");
    assert_eq!(tasks.len(), 3 * 6 * 3);
    let run = |placement: &str, rules: &str| -> &Value {
        let is_it = |row: &&&Value| row["placement"] == placement && row["rules"] == rules;
        tasks.iter().find(is_it).unwrap()
    };
    for row in &tasks {
        assert_eq!(
            (&row["verified"], &row["stolen_needlessly"]),
            (&true.into(), &0.into())
        );
    }
    let (none, cached, all) = (
        run("item", "none"),
        run("item", "cache"),
        run("item", "all"),
    );
    // Four blocks, 15 pairs and 20 triples.
    assert_eq!(
        (number(none, "products"), number(cached, "products")),
        (4 * 55, 4 * 35)
    );
    assert_eq!(number(none, "peak_temporary_bytes"), 0);
    assert_eq!(number(none, "copied_bytes"), 0);
    assert!(number(all, "copied_bytes") > 0);
    assert!(number(all, "remote_bytes") < number(none, "remote_bytes"));

    let genome = of("numa genome");
    assert_eq!(genome.len(), 3 * 6);
    for row in &genome {
        assert_eq!(row["verified"], true, "{row}");
        let one = row["queries_placed"] == "on_first_node";
        // A query on one node is far from three of four.
        assert!(!one || row["remote_share"].as_f64().unwrap() > 0.2, "{row}");
    }
    assert_eq!(
        summary["genome"]["placements_coincide"],
        summary["nodes"] == 1
    );
}

#[test]
fn numa_fails_where_the_library_does() {
    let home = home();
    let quick = "numa --quick --part counting --threads 2 --library";
    let program = library(&home, false);
    let ended = home.run(&format!("{quick} {program}"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    says(&ended.stderr, &["supports differ", "the library"]);
    says(
        &home.refused(&format!("{quick} nowhere")),
        &["make bench-numa"],
    );
}

#[test]
fn numa_speaks_to_people() {
    let home = home();
    let text = home.done("numa --quick --loops 1 --part traffic,products,add-array,counting");
    says(
        &text,
        &[
            "table 3-3",
            "kcycles",
            "all sums and supports are right",
            "E7-8880 v3",
            "table 6-3",
            "HElib+, numalloc",
            "near; ",
        ],
    );
    home.misused("numa --loops 0");
    home.misused("numa --runs 0");
    home.misused("numa --nodes 1");
}

/// Several people's alleles at eight sites, and two sequences.
fn write_genomes(home: &Home) {
    let people = 40usize;
    let names: String = (0..people).map(|number| format!("\tP{number}")).collect();
    let mut vcf = format!(
        "##fileformat=VCFv4.2\n##contig=<ID=7>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT{names}\n"
    );
    for site in 0..8 {
        vcf += &format!("7\t{}\t.\tA\tC\t.\tPASS\t.\tGT", 100 + site);
        for person in 0..people {
            vcf += &format!("\t{}|{}", person >> (site % 5) & 1, (person + site) % 2);
        }
        vcf += "\n";
    }
    home.write("panel.vcf", vcf);
    let bases = |step: usize| -> String {
        let base = |place: usize| char::from(b"ACGT"[place * place / step % 4]);
        (0..300).map(base).collect()
    };
    home.write("a.fa", format!(">a\n{}\n", bases(3)));
    home.write("b.fa", format!(">b\n{}\n", bases(7)));
}

const GENOME: &str =
    "genome --omni panel.vcf --lambda a.fa --ecoli b.fa --runs 2 --threads 2 --max-haplotypes 0";

#[test]
fn genomes_are_searched_and_reported() {
    let home = home();
    write_genomes(&home);
    fs::create_dir(home.path("out")).unwrap();
    let printed = lines(&home, &format!("{GENOME} --export out"));
    let (summary, lines) = printed.split_last().unwrap();
    assert_eq!(summary["bench"], "genome");
    assert_eq!(summary["verified"], true);
    let searches: Vec<_> = lines
        .iter()
        .filter(|line| line["bench"] == "genome search")
        .inspect(|line| {
            assert_eq!(line["source"], "file", "{line}");
            assert_eq!(line["verified"], true, "{line}");
            assert!(line["server_ms"].as_f64() <= line["call_ms"].as_f64());
            let bytes = ["sent_bytes", "received_bytes"].map(|it| line[it].as_u64().unwrap());
            assert_eq!(line["bytes"], bytes[0] + bytes[1]);
        })
        .collect();
    let asked: Vec<_> = searches
        .iter()
        .map(|line| {
            (
                line["collection"].as_str(),
                line["question"].as_str(),
                line["length"].as_u64(),
            )
        })
        .collect();
    let (panel, exact) = (Some("panel"), Some("exact"));
    let expected = [
        (panel, exact, Some(8)),
        (panel, Some("count"), Some(8)),
        (panel, Some("within 2"), Some(8)),
        (panel, Some("longest"), Some(8)),
        (Some("lambda"), exact, Some(32)),
        (Some("ecoli"), exact, Some(32)),
    ];
    assert_eq!(asked, expected);
    assert_eq!(summary["panel_server_ms"], searches[0]["server_ms"]);
    assert_eq!(summary["panel_bytes"], searches[0]["bytes"]);
    let seconds = searches[5]["server_ms"].as_f64().unwrap() / 1e3;
    assert_eq!(summary["ecoli_server_seconds"], seconds);
    // Other programs search the haplotypes that were searched here.
    assert_eq!(home.read("out/haplotypes.u8").len(), 80 * 8);
    let query = home.read("out/query.u8");
    let haplotypes = home.read("out/haplotypes.u8");
    assert!(haplotypes.chunks(8).any(|haplotype| haplotype == query));
    let left = fs::read_dir(home.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files are left behind");
    says(
        &home.refused(&format!("{GENOME} --export out")),
        &["haplotypes.u8 exists already"],
    );
}

#[test]
fn genomes_too_short_to_search_are_refused() {
    let home = home();
    write_genomes(&home);
    home.write("a.fa", ">a\nACGT\n");
    says(
        &home.refused(GENOME),
        &["lambda has 4 bases", "at least 32"],
    );
}

const GENOMES_LARGER_THAN_MEMORY: &str = "ssd --workload genome --haplotypes 3000 --sites 600 --positions 2 --threads 2 --runs 1 --mode streaming --limit 160MiB";

#[test]
fn ssd_searches_genomes_in_memory_and_streamed() {
    let home = home();
    let printed = lines(&home, GENOMES_LARGER_THAN_MEMORY);
    let (summary, lines) = printed.split_last().unwrap();
    assert_eq!(summary["workload"], "genome");
    assert_eq!(summary["haplotypes"], 3000);
    assert_eq!(summary["verified"], true);
    let modes = summary["modes"].as_array().unwrap();
    let measured: Vec<_> = modes.iter().map(|mode| mode["mode"].clone()).collect();
    assert_eq!(measured, ["memory", "streaming"]);
    for mode in measured {
        let asked: Vec<_> = lines
            .iter()
            .filter(|line| line["bench"] == "ssd question" && line["mode"] == mode)
            .map(|line| {
                assert_eq!(line["verified"], true, "{line}");
                let fields = ["pass", "length", "searches", "packed_bytes"];
                fields.map(|field| line[field].as_u64().unwrap())
            })
            .collect();
        let pass = |number| [16, 64, 256].map(|length| [number, length, 2, 2 * 375 * length]);
        assert_eq!(asked, [pass(0), pass(1)].concat());
    }
    let left = fs::read_dir(home.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files are left behind");
    let narrow = "ssd --workload genome --sites 255";
    says(&home.refused(narrow), &["--sites", "256"]);
}

const LARGER_THAN_MEMORY: &str =
    "ssd --items 5 --transactions 9000 --threads 2 --runs 1 --limit 160MiB";

#[test]
fn ssd_mines_in_every_mode_that_is_possible_here() {
    let home = home();
    let printed = lines(&home, LARGER_THAN_MEMORY);
    let (summary, lines) = printed.split_last().unwrap();
    assert_eq!(summary["bench"], "ssd");
    assert_eq!(summary["workload"], "mining");
    assert_eq!(summary["verified"], true);
    assert_eq!(summary["budget_bytes"], 160 << 20);
    assert!(summary["needed_bytes"].as_u64() > summary["stored_bytes"].as_u64());

    let of = |bench: &str| -> Vec<&Value> {
        let lines = lines.iter().filter(|line| line["bench"] == bench);
        lines.collect()
    };
    let modes = of("ssd mode");
    assert_eq!(
        summary["modes"].as_array().unwrap(),
        &modes.iter().copied().cloned().collect::<Vec<_>>()
    );
    let left_out = summary["left_out"].to_string();
    for (mode, times) in [("memory", 1), ("swap", 2), ("streaming", 1)] {
        let found = modes.iter().filter(|line| line["mode"] == mode).count();
        match found {
            0 => assert!(left_out.contains(&format!("\"{mode}, ")), "{left_out}"),
            found => assert_eq!(found, times, "{mode}: {left_out}"),
        }
    }
    assert_eq!(modes[0]["mode"], "memory");

    let setting = |line: &Value| {
        ["mode", "device", "limit_bytes", "page_cluster"].map(|field| line[field].clone())
    };
    for mode in modes {
        let asked: Vec<_> = of("ssd question")
            .into_iter()
            .filter(|line| setting(line) == setting(mode))
            .map(|line| {
                assert_eq!(line["verified"], true, "{line}");
                // Three blocks of 4096 slots; single items need one limb, pairs two.
                let limbs = line["length"].as_u64().unwrap();
                assert_eq!(line["packed_bytes"], 5 * 3 * 4096 * limbs * 7 / 2, "{line}");
                ["pass", "length", "itemsets"].map(|field| line[field].as_u64().unwrap())
            })
            .collect();
        assert_eq!(asked, [[0, 1, 5], [0, 2, 10], [1, 1, 5], [1, 2, 10]]);
        let sampled = of("ssd sample");
        let mut samples = sampled.iter().filter(|line| setting(line) == setting(mode));
        let sample = samples.next().unwrap();
        assert!(sample["seconds"].as_f64() > Some(0.0), "{sample}");
        assert!(
            sample["resident_bytes"].as_u64() > Some(1 << 20),
            "{sample}"
        );
        assert!(mode["peak_resident_bytes"].as_u64() >= sample["resident_bytes"].as_u64());
    }
    let left = fs::read_dir(home.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files are left behind");
}

#[test]
fn ssd_says_why_a_server_has_too_small_a_budget() {
    let home = home();
    let small = LARGER_THAN_MEMORY.replace("160MiB", "60MiB --mode streaming");
    // The server has its say on standard error as well.
    let ended = home.run(&format!("{small} --json"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    says(
        &ended.stdout,
        &["refused to start: --memory 60MiB leaves nothing"],
    );
    says(&ended.stderr, &["--memory 60MiB leaves nothing"]);
}

#[test]
fn ssd_takes_data_that_were_prepared() {
    let home = home();
    let shape = format!("{LARGER_THAN_MEMORY} --mode streaming");
    assert!(lines(&home, &format!("{shape} --prepare data")).is_empty());
    let prepared = format!("{shape} --prepared data");
    let printed = lines(
        &home,
        &format!("{prepared} --needed 1GB --limit 25% --limit 160MiB"),
    );
    let summary = printed.last().unwrap();
    assert_eq!(summary["verified"], true);
    assert_eq!(summary["needed_bytes"], 1_000_000_000);
    let modes = summary["modes"].as_array().unwrap();
    let measured: Vec<_> = modes
        .iter()
        .map(|mode| {
            (
                mode["mode"].as_str().unwrap(),
                mode["limit_bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    let streamed = [160 << 20, 250_000_000, 160 << 20].map(|limit| ("streaming", limit));
    assert_eq!(measured, streamed);
    let other = prepared.replace("--items 5", "--items 6");
    says(&home.refused(&other), &["5 items", "--prepare"]);
}

#[test]
fn ssd_undoes_everything_when_it_is_interrupted() {
    let home = home();
    let process = home.start(LARGER_THAN_MEMORY);
    let begun = || fs::read_dir(home.path("tmp")).unwrap().next();
    until("files are there", begun).unwrap();
    process.interrupt();
    let ended = process.ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    says(&ended.stderr, &["error: interrupted"]);
    let left = fs::read_dir(home.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files are left behind");
}

#[test]
fn ssd_speaks_to_people() {
    let home = home();
    // A directory that does not exist disables swap and streaming.
    let text = home.done(&format!("{LARGER_THAN_MEMORY} --device nowhere"));
    says(
        &text,
        &[
            "all in memory: first pass",
            "queue",
            "all answers equal the plaintext's",
            "left out: swap, nowhere",
            "left out: streaming, nowhere",
        ],
    );
    home.misused("ssd --device tmp=0");
    home.misused("ssd --runs 0");
    home.misused("ssd --limit 0%");
    home.misused("ssd --mode memory");
    home.misused("ssd --workload unknown");
    assert!(home.refused("ssd --max-len 0").contains("--max-len"));
}

#[test]
fn read_measures_a_disk() {
    let home = home();
    home.write("small", [0; 1000]);
    says(&home.refused("read small"), &["mebibyte"]);
    says(&home.refused("read missing"), &["missing"]);
    home.write("large", vec![7; 3 << 20]);
    let ended = home.run("read large --depth 2 --seconds 1 --json");
    if ended.code == Some(0) {
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(summary["depth"], 2);
        let (bytes, seconds) = (summary["bytes"].as_f64(), summary["seconds"].as_f64());
        let rate = bytes.unwrap() / seconds.unwrap();
        assert_eq!(summary["bytes_per_second"].as_f64(), Some(rate));
    } else {
        // Some file systems, such as tmpfs before Linux 6.6, always have a cache.
        says(&ended.stderr, &["choose a file on a disk"]);
    }
}

/// A results.json with these measures: name, what is better, runs.
fn results(quick: bool, measures: &[(&str, &str, &[f64])]) -> String {
    let measure = |&(name, better, runs): &(&str, &str, &[f64])| {
        let value = runs.iter().sum::<f64>() / runs.len() as f64;
        let measure = json!({ "value": value, "unit": "s", "better": better, "runs": runs });
        (name.to_owned(), measure)
    };
    json!({
        "format": 1,
        "commit": "c",
        "quick": quick,
        "environment": { "processor": "p", "cores": 2 },
        "measures": measures.iter().map(measure).collect::<serde_json::Map<_, _>>(),
    })
    .to_string()
}

#[test]
fn compare_sets_two_results_beside_each_other() {
    let home = home();
    let a: [(&str, &str, &[f64]); 4] = [
        ("noisy", "less", &[1.0, 2.0, 3.0]),
        ("once", "less", &[2.0]),
        ("only a", "less", &[1.0]),
        ("time", "less", &[1.0, 1.01, 0.99]),
    ];
    let b: [(&str, &str, &[f64]); 3] = [
        ("noisy", "less", &[1.1, 2.1, 3.1]),
        ("once", "less", &[1.0]),
        ("time", "less", &[2.0, 2.02, 1.98]),
    ];
    home.write("a.json", results(true, &a));
    home.write("b.json", results(true, &b));
    let printed = lines(&home, "compare a.json b.json");
    let judged: Vec<_> = printed[..3]
        .iter()
        .map(|line| (line["measure"].as_str(), line["judgement"].as_str()))
        .collect();
    let expected = [
        ("noisy", "undecided"),
        ("once", "single_runs"),
        ("time", "worse"),
    ];
    assert_eq!(judged, expected.map(|(name, of)| (Some(name), Some(of))));
    assert_eq!(printed[1]["ratio"], 0.5);
    assert_eq!(printed[1]["interval"], Value::Null);
    let summary = &printed[3];
    assert_eq!(
        (&summary["better"], &summary["worse"]),
        (&0.into(), &1.into())
    );
    assert_eq!(summary["only_in_a"], json!(["only a"]));
    let chosen = home.done("compare a.json b.json --only tim");
    says(&chosen, &["2.000", "worse", "1 measures"]);
}

#[test]
fn compare_refuses_what_cannot_be_compared() {
    let home = home();
    home.write("quick.json", results(true, &[]));
    home.write("full.json", results(false, &[]));
    home.write("none.json", "{}");
    home.write(
        "new.json",
        results(true, &[]).replace(r#""format":1"#, r#""format":2"#),
    );
    for (files, phrases) in [
        ("quick.json full.json", ["quick run", "same kind"]),
        ("quick.json none.json", ["none.json", "no results.json"]),
        ("quick.json new.json", ["format 2", "run make papers again"]),
        ("missing.json quick.json", ["missing.json", "cannot read"]),
    ] {
        says(&home.refused(&format!("compare {files}")), &phrases);
    }
}
