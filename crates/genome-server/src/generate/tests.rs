use super::*;
use crate::testing::empty;

fn generate(haplotypes: u32, sites: u32, seed: u64) -> (crate::Rows, Info) {
    let (_directory, collections) = empty();
    let parameters = SyntheticPanel {
        haplotypes,
        sites,
        seed,
    };
    let info = generate_panel(&collections, "g", &parameters, Existing::Keep).unwrap();
    let panel = collections.panel("g").unwrap();
    (panel.window(0..sites as usize).unwrap(), info)
}

#[test]
fn one_seed_makes_one_panel() {
    let (window, _) = generate(50, 40, 7);
    assert_eq!(generate(50, 40, 7).0, window);
    assert_ne!(generate(50, 40, 8).0, window);
}

/// Checks repetition: founders are fewer than haplotypes, and stretches longer than the window.
#[test]
fn haplotypes_repeat_as_linked_sites_make_them() {
    let (window, info) = generate(5000, 30, 1);
    assert_eq!(window.len(), 5000);
    let distinct = crate::Window::new(window).beginnings(30).count();
    assert!((100..2500).contains(&distinct), "{distinct}");
    assert!(matches!(
        info.shape,
        crate::Shape::Panel {
            haplotypes: 5000,
            sites: 30,
            ..
        }
    ));
}

#[test]
fn sizes_that_no_panel_has_are_refused() {
    let (_directory, collections) = empty();
    for (haplotypes, sites) in [(0, 1), (1, 0), (MAX_HAPLOTYPES + 1, 1), (1, MAX_SITES + 1)] {
        let parameters = SyntheticPanel {
            haplotypes,
            sites,
            seed: 0,
        };
        let error = generate_panel(&collections, "g", &parameters, Existing::Keep).unwrap_err();
        assert!(
            error.to_string().contains("must be 1 to 16777216"),
            "{error}"
        );
    }
}
