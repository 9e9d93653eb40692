//! What a result omits: every option, stored field and rule of the program by which less is counted, read or shown than
//! there is, with what the result says about it and the test that shows it.
//!
//! `docs/results.md` is generated from these tables; with `OBORO_BLESS=1` the test rewrites it. A command-line option
//! or a stored field that is missing here fails the test, and so does an entry without an option or a test.

use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The effect of an option or field on a result.
enum Effect {
    /// Something is left out.
    Narrows {
        left_out: &'static str,
        said: &'static str,
        /// `FILE::NAME`, the file in the workspace.
        test: &'static str,
    },
    /// Input beyond it is refused or fails; no partial result is returned.
    Refuses {
        what: &'static str,
        test: &'static str,
    },
    /// The result is the same, or is about what the option names.
    Nothing,
}
use Effect::{Narrows, Nothing, Refuses};

/// An option that is part of the question of a search.
const QUESTION: Effect = Narrows {
    left_out: "whatever else the collection holds",
    said: "`question` says it again",
    test: "crates/cli/tests/cli/genome.rs::a_result_says_what_was_asked",
};

/// An option for reading a file.
const READING: Effect = Narrows {
    left_out: "what the file would say if read in another way",
    said: "`read`: the form, separator, header, encoding, columns used and dropped, transactions (those that are empty, too), items",
    test: "crates/mining/src/readers/tests.rs::how_a_file_was_read_is_told_and_reads_another_the_same_way",
};

/// An option that leaves out lines or rows of a file.
const SKIPPED: Effect = Narrows {
    left_out: "so many lines at the beginning, or rows at the end, of the file",
    said: "`read.skip_first`, `read.skip_last`",
    test: "crates/mining/src/readers/tests.rs::rows_that_are_no_transactions_are_left_out_on_request",
};

/// Options as `command --option`; `* --option` for the commands that read files.
const OPTIONS: &[(&str, Effect)] = &[
    (
        "encrypt --min-item-support",
        Narrows {
            left_out: "items below the threshold",
            said: "`items_left_out` and `min_item_support`; the dataset remembers the threshold, and `mine` refuses a lower minimum support",
            test: "crates/cli/tests/cli/mining.rs::a_minimum_support_below_that_of_items_left_out_is_refused",
        },
    ),
    (
        "encrypt --new-items",
        Narrows {
            left_out: "with `drop`, items that the dataset has no column for",
            said: "`items_left_out` and `min_item_support`, which rises above what they may have; `mine` refuses a lower minimum support",
            test: "crates/cli/tests/cli/mining.rs::a_feed_with_new_items_raises_the_minimum_support",
        },
    ),
    (
        "erase --row-id",
        Narrows {
            left_out: "from then on the transactions with these ids, in every result",
            said: "`erased` and `transactions`, which results are fractions of",
            test: "crates/cli/tests/cli/growing.rs::an_erased_row_is_in_no_byte_that_is_left",
        },
    ),
    (
        "erase --row-ids-file",
        Narrows {
            left_out: "from then on the transactions with these ids, in every result",
            said: "`erased` and `transactions`, which results are fractions of",
            test: "crates/cli/tests/cli/growing.rs::an_erased_row_is_in_no_byte_that_is_left",
        },
    ),
    (
        "erase --before",
        Narrows {
            left_out: "from then on the transactions whose ids begin with an earlier date, in every result",
            said: "`erased` and `transactions`, which results are fractions of",
            test: "crates/cli/tests/cli/growing.rs::an_erased_row_is_in_no_byte_that_is_left",
        },
    ),
    (
        "encrypt --focus",
        Refuses {
            what: "`oboro pairs` of other items, in a dataset of more than 1,024",
            test: "crates/cli/tests/cli/mining.rs::pairs_of_many_columns",
        },
    ),
    (
        "plan --min-item-support",
        Narrows {
            left_out: "items below the threshold",
            said: "`items` are those planned for, `read.items` all",
            test: "crates/cli/tests/cli/plan.rs::numbers_and_files_give_the_same_plan",
        },
    ),
    ("* --format", READING),
    ("* --separator", READING),
    ("* --header", READING),
    ("* --encoding", READING),
    ("* --transaction-column", READING),
    ("* --item-column", READING),
    ("* --spaces", READING),
    ("* --missing", READING),
    ("* --unicode", READING),
    ("* --item-separator", READING),
    ("* --skip-first", SKIPPED),
    ("* --skip-last", SKIPPED),
    (
        "* --row-ids",
        Narrows {
            left_out: "the column named, which is no item",
            said: "`read.row_ids`; `oboro row-ids` lists what it has",
            test: "crates/cli/tests/cli/mining.rs::row_ids_are_sealed_and_come_back",
        },
    ),
    (
        "* --bin",
        Narrows {
            left_out: "the numbers themselves, of which ranges are items",
            said: "`read.bins`",
            test: "crates/mining/src/readers/tests.rs::numbers_become_items_by_ranges",
        },
    ),
    ("* --taxonomy", Nothing),
    (
        "* --drop-columns",
        Narrows {
            left_out: "the columns named",
            said: "`read.columns_dropped`",
            test: "python/tests/test_reading.py::test_the_command_reads_them_so_too",
        },
    ),
    (
        "encrypt --max-len",
        Narrows {
            left_out: "itemsets that are longer",
            said: "`max_len`; `mine` looks for longer ones only if told to, and its own `max_len` says where the search ended",
            test: "crates/cli/tests/cli/mining.rs::a_result_says_where_longer_itemsets_were_not_looked_for",
        },
    ),
    (
        "plan --max-len",
        Narrows {
            left_out: "itemsets that are longer",
            said: "`max_len`",
            test: "crates/cli/tests/cli/json.rs::every_command_prints_one_value",
        },
    ),
    (
        "plan --frequent-items",
        Narrows {
            left_out: "itemsets of two and more with other items",
            said: "`frequent_items`",
            test: "crates/cli/tests/cli/plan.rs::numbers_and_files_give_the_same_plan",
        },
    ),
    (
        "plan --min-support",
        Narrows {
            left_out: "itemsets of two and more with items below that support",
            said: "`frequent_items`",
            test: "crates/cli/tests/cli/plan.rs::a_plan_in_words_says_what_a_run_takes_and_shows",
        },
    ),
    (
        "plan --itemsets",
        Narrows {
            left_out: "itemsets beyond this number of a length",
            said: "`itemsets` of each length",
            test: "crates/cli/tests/cli/plan.rs::numbers_and_files_give_the_same_plan",
        },
    ),
    (
        "mine --min-support",
        Narrows {
            left_out: "itemsets of fewer transactions",
            said: "`min_support`, a number of transactions, also in the file for `oboro rules`",
            test: "crates/cli/tests/cli/mining.rs::every_form_of_csv_gives_what_fimi_gives",
        },
    ),
    (
        "mine --max-len",
        Narrows {
            left_out: "itemsets that are longer",
            said: "`max_len`, null if no longer itemset is frequent; a sentence in text",
            test: "crates/cli/tests/cli/mining.rs::a_result_says_where_longer_itemsets_were_not_looked_for",
        },
    ),
    (
        "mine --stop-above",
        Refuses {
            what: "results of more itemsets",
            test: "crates/cli/tests/cli/mining.rs::a_run_stops_once_too_many_itemsets_are_certain",
        },
    ),
    (
        "mine --top",
        Narrows {
            left_out: "itemsets less frequent than the last of the K",
            said: "`top`, and `min_support`, which was chosen; a sentence in text",
            test: "crates/cli/tests/cli/results.rs::the_most_frequent_itemsets_are_found_without_a_support",
        },
    ),
    (
        "mine --containing",
        Narrows {
            left_out: "itemsets that lack one of these items",
            said: "`containing`, also in the file; the first line in text",
            test: "crates/cli/tests/cli/results.rs::itemsets_are_listed_that_contain_what_was_asked_for",
        },
    ),
    (
        "mine --closed",
        Narrows {
            left_out: "itemsets of which a superset has the same support",
            said: "`kept`, also in the file; a word in text; those of `max_len` items all stay",
            test: "crates/cli/tests/cli/results.rs::closed_and_maximal_itemsets_are_kept",
        },
    ),
    (
        "mine --maximal",
        Narrows {
            left_out: "itemsets of which a superset is frequent",
            said: "`kept`, also in the file; a word in text; those of `max_len` items all stay",
            test: "crates/cli/tests/cli/results.rs::closed_and_maximal_itemsets_are_kept",
        },
    ),
    (
        "mine --suppress-below",
        Narrows {
            left_out: "counts below it, and those from which one would follow",
            said: "`release`: the number, and what the search for such counts promises; lines on standard error",
            test: "crates/cli/tests/cli/results.rs::what_is_released_gives_no_small_count_away",
        },
    ),
    (
        "mine --round-to",
        Narrows {
            left_out: "what supports are exactly; itemsets whose support is rounded to 0",
            said: "`release`: the multiple; a line on standard error",
            test: "crates/cli/tests/cli/results.rs::released_supports_are_rounded_and_rules_are_of_the_rounded_ones",
        },
    ),
    (
        "* --offline",
        Narrows {
            left_out: "changes that were uploaded from another copy of the directory",
            said: "`offline`, with the version and the date of its upload; a sentence in text",
            test: "crates/cli/tests/cli/mining.rs::a_stale_copy_answers_only_offline_and_says_so",
        },
    ),
    (
        "rules --metric",
        Narrows {
            left_out: "rules below `--min` in this metric",
            said: "`metric`; the first line in text",
            test: "crates/cli/tests/cli/mining.rs::a_table_says_how_much_of_the_result_it_shows",
        },
    ),
    (
        "rules --min",
        Narrows {
            left_out: "rules below this value",
            said: "`min`; the first line in text",
            test: "crates/cli/tests/cli/mining.rs::a_table_says_how_much_of_the_result_it_shows",
        },
    ),
    (
        "rules --antecedent",
        Narrows {
            left_out: "rules that do not conclude from these items",
            said: "`antecedent`; the first line in text",
            test: "crates/cli/tests/cli/mining.rs::rules_are_chosen_by_their_items_and_written_as_tables",
        },
    ),
    (
        "rules --consequent",
        Narrows {
            left_out: "rules that do not conclude these items",
            said: "`consequent`; the first line in text",
            test: "crates/cli/tests/cli/mining.rs::rules_are_chosen_by_their_items_and_written_as_tables",
        },
    ),
    (
        "rules --items",
        Narrows {
            left_out: "rules without these items",
            said: "`items`; the first line in text",
            test: "crates/cli/tests/cli/mining.rs::rules_are_chosen_by_their_items_and_written_as_tables",
        },
    ),
    (
        "rules --top",
        Narrows {
            left_out: "rules beyond this number, in text only",
            said: "the number of all rules, and \"the best N\", in the first line",
            test: "crates/cli/tests/cli/mining.rs::a_table_says_how_much_of_the_result_it_shows",
        },
    ),
    (
        "rules --suppress-below",
        Narrows {
            left_out: "counts below it, and those from which one would follow",
            said: "`release`: the number, and what the search for such counts promises; lines on standard error",
            test: "crates/cli/tests/cli/results.rs::what_is_released_gives_no_small_count_away",
        },
    ),
    (
        "rules --round-to",
        Narrows {
            left_out: "what supports are exactly; itemsets whose support is rounded to 0",
            said: "`release`: the multiple; a line on standard error",
            test: "crates/cli/tests/cli/results.rs::released_supports_are_rounded_and_rules_are_of_the_rounded_ones",
        },
    ),
    (
        "count --suppress-below",
        Narrows {
            left_out: "counts below it, and those from which one would follow",
            said: "`release`: the number, and what the search for such counts promises; lines on standard error; null in place of the support",
            test: "crates/cli/tests/cli/results.rs::what_is_released_gives_no_small_count_away",
        },
    ),
    (
        "count --round-to",
        Narrows {
            left_out: "what supports are exactly; itemsets whose support is rounded to 0",
            said: "`release`: the multiple; a line on standard error",
            test: "crates/cli/tests/cli/results.rs::released_supports_are_rounded_and_rules_are_of_the_rounded_ones",
        },
    ),
    (
        "report --metric",
        Narrows {
            left_out: "rules below `--min` in this metric",
            said: "the metric and the least value, above the plot of rules",
            test: "crates/mining/src/report.rs::a_report_has_itemsets_rules_and_where_they_are_from",
        },
    ),
    (
        "report --min",
        Narrows {
            left_out: "rules below this value",
            said: "the metric and the least value, above the plot of rules",
            test: "crates/mining/src/report.rs::a_report_has_itemsets_rules_and_where_they_are_from",
        },
    ),
    (
        "genome load --region",
        Narrows {
            left_out: "sites elsewhere",
            said: "`left_out.outside_region` counts their lines",
            test: "crates/cli/tests/cli/genome.rs::what_a_file_has_and_its_panel_has_not_is_told",
        },
    ),
    (
        "genome load --skip-duplicates",
        Narrows {
            left_out: "of lines at one position all but the first",
            said: "`left_out.duplicates` counts them",
            test: "crates/cli/tests/cli/genome.rs::what_a_file_has_and_its_panel_has_not_is_told",
        },
    ),
    (
        "genome query --sites-digest",
        Refuses {
            what: "panels with other sites",
            test: "crates/cli/tests/cli/genome.rs::sites_that_are_not_the_pinned_ones_are_refused_before_anything_of_the_query_is_sent",
        },
    ),
    (
        "serve --max-message",
        Refuses {
            what: "messages that are larger",
            test: "crates/cli/tests/cli/clients.rs::what_goes_beyond_a_limit_is_refused_with_the_limit",
        },
    ),
    (
        "serve --max-dataset",
        Refuses {
            what: "datasets that are larger",
            test: "crates/cli/tests/cli/clients.rs::what_goes_beyond_a_limit_is_refused_with_the_limit",
        },
    ),
    (
        "serve --max-itemsets",
        Refuses {
            what: "questions of more itemsets; `mine` divides them",
            test: "crates/cli/tests/cli/clients.rs::what_goes_beyond_a_limit_is_refused_with_the_limit",
        },
    ),
    (
        "serve --max-queries",
        Refuses {
            what: "questions beyond this number at a time",
            test: "crates/cli/tests/cli/clients.rs::a_small_query_ends_before_any_of_a_flood",
        },
    ),
    (
        "serve --max-queries-per-client",
        Refuses {
            what: "questions of one client beyond this number at a time",
            test: "crates/cli/tests/cli/serving.rs::one_client_is_one_however_many_connections_it_has",
        },
    ),
    (
        "serve --query-timeout",
        Refuses {
            what: "questions that take longer",
            test: "crates/cli/tests/cli/serving.rs::a_query_that_takes_too_long_is_ended",
        },
    ),
    (
        "serve --max-search",
        Refuses {
            what: "genome queries that are larger",
            test: "crates/cli/tests/cli/genome.rs::searches_keep_to_the_memory_that_they_have",
        },
    ),
    (
        "serve --genome-budget",
        Refuses {
            what: "genome queries beyond a client's budget",
            test: "crates/cli/tests/cli/genome.rs::budgets_are_counted_through_a_power_cut_until_they_are_reset",
        },
    ),
    (
        "serve --genome-reference-limit",
        Refuses {
            what: "references that are longer",
            test: "crates/cli/tests/cli/genome.rs::what_is_not_there_or_not_allowed_is_refused_with_the_reason",
        },
    ),
    (
        "serve --genome-counts",
        Refuses {
            what: "without it, counts of matches",
            test: "crates/cli/tests/cli/genome.rs::what_is_not_there_or_not_allowed_is_refused_with_the_reason",
        },
    ),
    (
        "serve --max-calls-per-second",
        Refuses {
            what: "calls of one client beyond this number a second; clients make them again",
            test: "crates/cli/tests/cli/fairness.rs::who_calls_too_often_is_told_when_to_call_again_and_does",
        },
    ),
    (
        "serve --owner-bytes",
        Refuses {
            what: "uploads by which an owner would store more",
            test: "crates/store/src/store/access/tests.rs::quotas_are_of_one_owner",
        },
    ),
    (
        "serve --owner-datasets",
        Refuses {
            what: "uploads by which an owner would store more",
            test: "crates/store/src/store/access/tests.rs::quotas_are_of_one_owner",
        },
    ),
    (
        "serve --owner-uploads",
        Refuses {
            what: "uploads by which an owner would store more",
            test: "crates/store/src/store/access/tests.rs::quotas_are_of_one_owner",
        },
    ),
    (
        "datasets --deleted",
        Narrows {
            left_out: "published datasets",
            said: "the answer is about deleted ones, each with the end of its time",
            test: "crates/cli/tests/cli/owners.rs::what_was_deleted_by_mistake_comes_back",
        },
    ),
    (
        "datasets --uploads",
        Narrows {
            left_out: "published datasets",
            said: "the answer is about unfinished uploads, each with the end of its time",
            test: "crates/cli/tests/cli/json.rs::every_command_prints_one_value",
        },
    ),
    ("* --client-cert", Nothing),
    ("* --client-key", Nothing),
    // Part of the question; the result repeats it.
    ("genome query --position", QUESTION),
    ("genome query --within", QUESTION),
    ("genome query --longest", QUESTION),
    ("genome query --count", QUESTION),
    ("genome find --within", QUESTION),
    ("genome find --count", QUESTION),
    ("* TARGET", Nothing),
];

/// Options that omit nothing, by command: locations, identity, the subject of the question, and how the work is done.
const HARMLESS: &[(&str, &[&str])] = &[
    ("backup", &["DIR", "TARGET"]),
    ("datasets", &["--ca", "--server", "--token-file"]),
    (
        "delete",
        &["--ca", "--now", "--server", "--token-file", "--yes", "NAME"],
    ),
    (
        "access grant",
        &[
            "--ca",
            "--server",
            "--token-file",
            "CALLER",
            "ROLES",
            "NAME",
        ],
    ),
    (
        "access revoke",
        &[
            "--ca",
            "--server",
            "--token-file",
            "CALLER",
            "ROLES",
            "NAME",
        ],
    ),
    ("access list", &["--ca", "--server", "--token-file"]),
    ("queries", &["--ca", "--server", "--token-file"]),
    ("queries end", &["--ca", "--server", "--token-file", "ID"]),
    (
        "undelete",
        &["--as", "--ca", "--server", "--token-file", "NAME|ID"],
    ),
    (
        "encrypt",
        &[
            "--absorb",
            "--dry-run",
            "--append-to",
            "--key",
            "--key-command",
            "--memory",
            "--no-absorb",
            "--out",
            "--passphrase-command",
            "--passphrase-file",
            "--threads",
            "INPUT",
        ],
    ),
    (
        "generate",
        &[
            "--items",
            "--pattern-length",
            "--patterns",
            "--seed",
            "--transaction-length",
            "--transactions",
            "OUTPUT",
        ],
    ),
    ("genome budget", &["--accept-restored", "--data"]),
    (
        "genome find",
        &[
            "--ca",
            "--pattern",
            "--reference",
            "--server",
            "--token-file",
            "--verify",
        ],
    ),
    (
        "genome generate",
        &[
            "--data",
            "--haplotypes",
            "--panel",
            "--replace",
            "--seed",
            "--sites",
        ],
    ),
    (
        "genome list",
        &["--ca", "--data", "--server", "--token-file"],
    ),
    (
        "genome load",
        &["--data", "--panel", "--reference", "--replace", "FILE"],
    ),
    (
        "genome query",
        &[
            "--alleles",
            "--ca",
            "--decoys",
            "--panel",
            "--sequence",
            "--server",
            "--token-file",
            "--verify",
        ],
    ),
    ("genome remove", &["--data", "--panel", "--reference"]),
    ("genome reset", &["--client", "--data"]),
    (
        "genome show",
        &["--haplotype", "--length", "--position", "--data", "--panel"],
    ),
    (
        "inspect",
        &[
            "--ca",
            "--key",
            "--key-command",
            "--passphrase-command",
            "--passphrase-file",
            "--placement",
            "--server",
            "--token-file",
            "--verify",
            "PATH",
        ],
    ),
    (
        "count",
        &[
            "--ca",
            "--keep-cells",
            "--key",
            "--key-command",
            "--name",
            "--passphrase-command",
            "--passphrase-file",
            "--record",
            "--server",
            "--threads",
            "--token-file",
            "DIR",
            "ITEMS",
        ],
    ),
    ("completions", &["SHELL"]),
    ("man", &["DIR"]),
    (
        "keygen",
        &[
            "--key",
            "--passphrase",
            "--passphrase-command",
            "--passphrase-file",
        ],
    ),
    (
        "mine",
        &[
            "--answers",
            "--ca",
            "--keep-cells",
            "--key",
            "--key-command",
            "--name",
            "--no-deduction",
            "--out",
            "--passphrase-command",
            "--passphrase-file",
            "--record",
            "--server",
            "--threads",
            "--token-file",
            "--trust-server",
            "--verify",
            "DIR",
        ],
    ),
    (
        "plan",
        &[
            "--items",
            "--transactions",
            "--row-id-bytes",
            "--explain",
            "--threads",
            "INPUT",
        ],
    ),
    ("rules", &["--out", "--record", "ITEMSETS"]),
    ("report", &["--out", "ITEMSETS"]),
    (
        "scrub",
        &["--ca", "--rate", "--server", "--token-file", "DIR|NAME"],
    ),
    (
        "serve",
        &[
            "--check-config",
            "--config",
            "--drain-delay",
            "--audit-log",
            "--audit-log-keep",
            "--audit-log-size",
            "--monitor",
            "--monitor-namespaces",
            "--client-ca",
            "--keep-deleted",
            "--keep-uploads",
            "--queue-timeout",
            "--cache",
            "--cache-size",
            "--data",
            "--genome-cache",
            "--handshake-timeout",
            "--idle-timeout",
            "--listen",
            "--log-format",
            "--max-connections",
            "--max-connections-per-address",
            "--memory",
            "--moment-cache",
            "--pin",
            "--threads",
            "--tls-cert",
            "--tls-key",
            "--tokens",
        ],
    ),
    (
        "compact",
        &[
            "--all",
            "--dry-run",
            "--key",
            "--key-command",
            "--passphrase-command",
            "--passphrase-file",
            "--threads",
            "DIR",
        ],
    ),
    (
        "erase",
        &[
            "--dry-run",
            "--key",
            "--key-command",
            "--passphrase-command",
            "--passphrase-file",
            "--record",
            "--threads",
            "DIR",
        ],
    ),
    (
        "rotate",
        &[
            "--dry-run",
            "--key",
            "--key-command",
            "--new-key",
            "--new-key-command",
            "--new-passphrase-command",
            "--new-passphrase-file",
            "--passphrase-command",
            "--passphrase-file",
            "--threads",
            "DIR",
        ],
    ),
    (
        "pairs",
        &[
            "--ca",
            "--key",
            "--key-command",
            "--name",
            "--out",
            "--passphrase-command",
            "--passphrase-file",
            "--server",
            "--threads",
            "--token-file",
            "--with",
            "DIR",
        ],
    ),
    (
        "row-ids",
        &[
            "--ca",
            "--key",
            "--key-command",
            "--name",
            "--out",
            "--passphrase-command",
            "--passphrase-file",
            "--server",
            "--slots",
            "--threads",
            "--token-file",
            "DIR",
        ],
    ),
    ("token list", &["--tokens"]),
    (
        "token new",
        &["--out", "--role", "--tokens", "--until", "NAME"],
    ),
    ("token revoke", &["--tokens", "NAME|ID"]),
    (
        "trust reset",
        &[
            "--key",
            "--key-command",
            "--passphrase-command",
            "--passphrase-file",
            "DIR",
        ],
    ),
    (
        "trust show",
        &[
            "--key",
            "--key-command",
            "--passphrase-command",
            "--passphrase-file",
            "DIR",
        ],
    ),
    (
        "recover",
        &[
            "--ca",
            "--key",
            "--key-command",
            "--out",
            "--passphrase-command",
            "--passphrase-file",
            "--recovery-passphrase-command",
            "--recovery-passphrase-file",
            "--root",
            "--server",
            "--token-file",
            "NAME",
        ],
    ),
    (
        "upload",
        &[
            "--ca",
            "--cancel",
            "--keep-record",
            "--no-keep-record",
            "--recovery-passphrase-command",
            "--recovery-passphrase-file",
            "--name",
            "--server",
            "--token-file",
            "DIR",
        ],
    ),
];

/// Fields stored about a dataset.
const OWNER_RECORD: &[(&str, Effect)] = &[
    (
        "version",
        Refuses {
            what: "records of another version",
            test: "crates/mining/src/record.rs::records_of_older_versions_are_refused",
        },
    ),
    (
        "root",
        Refuses {
            what: "records beside other data",
            test: "crates/mining/src/record.rs::records_that_do_not_fit_are_refused",
        },
    ),
    (
        "min_item_support",
        Narrows {
            left_out: "items below it",
            said: "a lower minimum support is refused; `oboro inspect --key` and `Encrypted.min_item_support` show it",
            test: "crates/mining/src/dataset.rs::the_support_from_which_items_are_complete_is_recorded_and_stays",
        },
    ),
    (
        "left_out",
        Narrows {
            left_out: "items of appended transactions that have no column",
            said: "`min_item_support` is above what they may have; a lower minimum support is refused",
            test: "crates/mining/src/dataset.rs::new_items_are_left_out_and_the_threshold_rises_above_theirs",
        },
    ),
    ("transactions", Nothing),
    ("names", Nothing),
    ("order", Nothing),
    ("numbers", Nothing),
    ("read", READING),
    ("noise_norm", Nothing),
    ("noise_peak", Nothing),
    ("noise_plaintext_peak", Nothing),
    ("by_support", Nothing),
    ("paired", Nothing),
    (
        "focus",
        Refuses {
            what: "pairs of other items with every item at once, in a dataset of more than 1,024",
            test: "crates/cli/tests/cli/mining.rs::pairs_of_many_columns",
        },
    ),
    ("strata", Nothing),
    ("supports", Nothing),
    ("absorbs", Nothing),
    ("reliance", Nothing),
];

/// Fields of a file of frequent itemsets.
const ITEMSETS: &[(&str, Effect)] = &[
    ("transactions", Nothing),
    ("itemsets", Nothing),
    (
        "min_support",
        Narrows {
            left_out: "itemsets of fewer transactions, and rules that need them",
            said: "`min_support` of `oboro rules`",
            test: "crates/cli/tests/cli/mining.rs::a_table_says_how_much_of_the_result_it_shows",
        },
    ),
    (
        "max_len",
        Narrows {
            left_out: "itemsets that are longer, and rules of them",
            said: "`max_len` of `oboro rules`; a sentence in text",
            test: "crates/cli/tests/cli/mining.rs::a_result_says_where_longer_itemsets_were_not_looked_for",
        },
    ),
    (
        "kept",
        Refuses {
            what: "rules of itemsets that are not all there",
            test: "crates/cli/tests/cli/results.rs::closed_and_maximal_itemsets_are_kept",
        },
    ),
    (
        "containing",
        Refuses {
            what: "rules of itemsets that are not all there",
            test: "crates/cli/tests/cli/results.rs::itemsets_are_listed_that_contain_what_was_asked_for",
        },
    ),
    (
        "release",
        Narrows {
            left_out: "counts that were suppressed before, and rules of them",
            said: "`release` of `oboro rules`",
            test: "crates/cli/tests/cli/results.rs::what_is_released_gives_no_small_count_away",
        },
    ),
    ("source", Nothing),
];

/// Effects that no option or field represents.
const OTHERS: &[(&str, Effect)] = &[
    (
        "transactions appended and not uploaded yet",
        Refuses {
            what: "mining the dataset until they are uploaded",
            test: "crates/cli/tests/cli/mining.rs::an_append_that_was_not_uploaded_is_not_counted_in_silence",
        },
    ),
    (
        "moments that the server has kept",
        Refuses {
            what: "those of another version: each version has its own",
            test: "crates/cli/tests/cli/uploading.rs::the_old_version_serves_until_the_new_one_is_complete",
        },
    ),
    (
        "a figure of supports in Python",
        Narrows {
            left_out: "itemsets beyond the `top` most frequent",
            said: "the number shown and of all, in the title",
            test: "python/tests/test_plot.py::test_a_figure_of_some_itemsets_says_of_how_many",
        },
    ),
    (
        "the pictures and the table of a report",
        Narrows {
            left_out: "itemsets beyond the 25 most frequent; rules beyond the 2,000, the 50 and the 24 (of each itemset one) of highest lift in plot, table and network",
            said: "the number shown and of all, above each",
            test: "crates/mining/src/report.rs::a_report_has_itemsets_rules_and_where_they_are_from",
        },
    ),
    (
        "the table of itemsets in text",
        Narrows {
            left_out: "itemsets beyond the 20 longest",
            said: "the number shown and of all, above the table; `--out` and `--json` have all",
            test: "crates/cli/tests/cli/mining.rs::a_table_says_how_much_of_the_result_it_shows",
        },
    ),
    (
        "the table of `oboro pairs` in text",
        Narrows {
            left_out: "all but the 20 most frequent pairs, and items that were left out as rare",
            said: "the number of all, and how many more there are; `--out` and `--json` have all, and `min_item_support`",
            test: "crates/cli/tests/cli/mining.rs::pairs_with_one_item",
        },
    ),
    (
        "damaged parts of a dataset",
        Refuses {
            what: "what would be counted in them",
            test: "crates/cli/tests/cli/scrubbing.rs::damage_is_named_and_only_what_touches_it_is_refused",
        },
    ),
    (
        "an answer that was found to be false",
        Refuses {
            what: "any further question about the dataset, until `oboro trust reset`",
            test: "crates/cli/tests/cli/liar.rs::a_false_answer_is_remembered_until_the_owner_decides",
        },
    ),
    (
        "unverified answers that were used",
        Refuses {
            what: "later questions about the dataset, until `oboro trust reset`",
            test: "crates/cli/tests/cli/liar.rs::after_unverified_answers_every_question_waits_for_a_decision",
        },
    ),
    (
        "an answer that breaks off",
        Refuses {
            what: "the whole result",
            test: "crates/cli/tests/cli/serving.rs::a_server_killed_during_a_query",
        },
    ),
    (
        "a minimum support given as a fraction",
        Narrows {
            left_out: "itemsets of fewer transactions than the fraction, rounded up",
            said: "`min_support`, a number of transactions",
            test: "crates/cli/tests/cli/mining.rs::every_form_of_csv_gives_what_fimi_gives",
        },
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The name of an argument in the tables.
fn name(command: &str, argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("{command} --{long}"),
        None => {
            let value = argument.get_value_names().and_then(<[_]>::first);
            format!("{command} {}", value.map_or("?", |value| value.as_str()))
        }
    }
}

/// The options of a command and its subcommands.
fn options_of(command: &Command, path: &str, all: &mut BTreeSet<String>) {
    for argument in command.get_arguments() {
        if !matches!(
            argument.get_id().as_str(),
            "help" | "version" | "json" | "profile"
        ) {
            all.insert(name(path, argument));
        }
    }
    for below in command.get_subcommands() {
        if !matches!(below.get_name(), "help") {
            let path = format!("{path} {}", below.get_name());
            options_of(below, path.trim_start(), all);
        }
    }
}

fn options() -> BTreeSet<String> {
    let mut command = crate::Cli::command();
    command.build();
    let mut all = BTreeSet::new();
    options_of(&command, "", &mut all);
    all
}

/// The table's entry for an option.
fn line_of(option: &str) -> Option<&'static str> {
    let (command, last) = option.rsplit_once(' ')?;
    let any = format!("* {last}");
    let line = OPTIONS.iter().map(|(name, _)| *name);
    let harmless = HARMLESS.iter().filter(|(name, _)| *name == command);
    let harmless = harmless.flat_map(|(_, options)| *options);
    line.into_iter()
        .find(|name| *name == option || *name == any)
        .or_else(|| harmless.copied().find(|name| *name == last))
}

fn fields(json: &str) -> BTreeSet<String> {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_option_has_a_line_and_every_line_an_option() {
    let options = options();
    let missing: Vec<_> = options.iter().filter(|it| line_of(it).is_none()).collect();
    assert!(missing.is_empty(), "no line for {missing:#?}");
    let harmless = HARMLESS.iter().flat_map(|(command, options)| {
        let option = move |option: &&str| format!("{command} {option}");
        options.iter().map(option)
    });
    let lines = OPTIONS.iter().map(|(name, _)| (*name).to_owned());
    let is_stale = |line: &String| match line.strip_prefix('*') {
        Some(option) => !options.iter().any(|it| it.ends_with(option)),
        None => !options.contains(line),
    };
    let stale: Vec<_> = lines.chain(harmless).filter(is_stale).collect();
    assert!(stale.is_empty(), "no option for the lines {stale:#?}");
}

#[test]
fn every_stored_field_has_a_line() {
    let record = include_str!("../../mining/tests/golden/owner-record-8.json");
    let itemsets = include_str!("../../../fuzz/corpus/itemsets/rules");
    for (table, json) in [(OWNER_RECORD, record), (ITEMSETS, itemsets)] {
        let lines: BTreeSet<String> = table.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(lines, fields(json));
    }
}

#[test]
fn every_line_has_its_test() {
    for (name, effect) in [OPTIONS, OWNER_RECORD, ITEMSETS, OTHERS]
        .into_iter()
        .flatten()
    {
        let (Narrows { test, .. } | Refuses { test, .. }) = effect else {
            continue;
        };
        let (file, function) = test.split_once("::").unwrap();
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let found = [format!("fn {function}("), format!("def {function}(")];
        assert!(
            found.iter().any(|it| text.contains(it)),
            "{name}: there is no {test}"
        );
    }
}

/// Neighbours with the same effect share a row.
fn rows(text: &mut String, table: &[(&str, Effect)]) {
    text.push_str("| | what is left out | what the result says | test |\n| -- | -- | -- | -- |\n");
    let said = |(_, effect): &(&str, Effect)| match effect {
        Narrows {
            left_out,
            said,
            test,
        } => Some((*left_out, *said, *test)),
        Refuses { what, test } => Some((*what, "refused, with the reason; nothing in part", *test)),
        Nothing => None,
    };
    for same in table.chunk_by(|a, b| said(a) == said(b)) {
        let Some((left_out, said, test)) = said(&same[0]) else {
            continue;
        };
        let names: Vec<String> = same.iter().map(|(name, _)| code(name)).collect();
        let names = names.join(", ");
        let test = test.rsplit_once("::").map_or(test, |(_, name)| name);
        let _ = writeln!(text, "| {names} | {left_out} | {said} | `{test}` |");
    }
    text.push('\n');
}

/// Options and fields as code, sentences unchanged.
fn code(name: &str) -> String {
    if name.contains("--") || !name.contains(' ') {
        format!("`{}`", name.trim_start_matches("* "))
    } else {
        name.to_owned()
    }
}

fn page() -> String {
    let mut text = String::from(
        "# What a result does not contain\n\n\
         Results are exact for what was counted. This page lists everything by which less is counted, read or shown\n\
         than there is, what the result says of it, and the test that shows so. It is made from\n\
         `crates/cli/src/narrowing.rs`, whose tests fail when an option or a stored field has no line.\n\n\
         ## Options\n\n",
    );
    rows(&mut text, OPTIONS);
    text.push_str("## The owner's record of a dataset\n\n");
    rows(&mut text, OWNER_RECORD);
    text.push_str("## A file of frequent itemsets\n\n");
    rows(&mut text, ITEMSETS);
    text.push_str("## Without an option\n\n");
    rows(&mut text, OTHERS);
    text
}

#[test]
fn the_page_is_made_from_the_tables() {
    let path = root().join("docs/results.md");
    if std::env::var_os("OBORO_BLESS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/results.md is not what the tables say; run OBORO_BLESS=1 cargo test -p oboro --bin oboro narrowing"
    );
}
