//! Power cuts after every operation of the store on its disk, including SQLite's.
//!
//! The script runs once. A store opened on the remains of a cut is compared with what had been promised by then.

use super::script::{Owner, Promised, SCRIPT, Server, check_survivors};
use oboro_faults::{Disk, Image, Loss, replay};

#[test]
fn a_power_cut_at_any_step_leaves_what_was_promised() {
    let (owner, disk) = (Owner::new(), Disk::new());
    let mut server = Server::new(&owner, disk.path());
    for &step in SCRIPT {
        server.run(step).unwrap();
        disk.acknowledge();
    }
    drop(server);
    let record = disk.record();
    // If anything were not recorded, the following would mean little.
    assert!(record.image(record.operations(), Loss::Nothing) == Image::read(disk.path()));

    let promised = Promised::by_steps();
    replay(&record, |disk, cut| {
        let after = cut.acknowledged + usize::from(cut.under_way);
        let promised = [&promised[cut.acknowledged], &promised[after]];
        check_survivors(&owner, disk, &promised, cut.operations % 2 == 0);
    });
}
