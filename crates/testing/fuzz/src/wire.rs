//! Messages between owner and server.

use crate::decoded;
use crate::files::master;
use oboro_format::{Damage, DatasetInfo, Manifest};
use oboro_protocol::{
    block_ranges, column_numbers, columns, dataset_id, digest, moments_range, v1,
};
use oboro_ring::moment::{Itemsets, MomentIndex};
use oboro_ring::{Column, Parameters, pack};
use oboro_rlwe::{Bounds, Combiner, DatasetKey, Partial, SecretGeneration, Strata};
use prost::Message;
use std::sync::LazyLock;

/// Blocks of the dataset of [`answer`].
const BLOCKS: u64 = 8;
/// Columns of the dataset of [`question`].
const COLUMNS: u32 = 64;
/// The most uses of moments of a query to plan.
const USES: usize = 1 << 12;

static COMBINER: LazyLock<Combiner> = LazyLock::new(combiner);

fn combiner() -> Combiner {
    let parameters = Parameters::new(11, 2, 12289).expect("they are secure");
    let key = DatasetKey::new(&master(), parameters, [1; 16], [2; 16]);
    let itemsets =
        Itemsets::new(2, [0, 1, 1, 2].map(Column).to_vec(), 3).expect("they are in order");
    let bounds = Bounds::new(key.ring().parameters(), 3, 2).expect("the parameters carry pairs");
    // A total too large for t, and its sample.
    let extents = bounds
        .strata_of(BLOCKS << 11, SecretGeneration::default())
        .expect("they are few");
    let strata = Strata::new(bounds, &extents).expect("they are what bounds hold for");
    Combiner::new(key, itemsets, strata).expect("the parameters carry pairs")
}

/// A message, which must re-encode to an equal one.
pub(crate) fn message<M: Message + Default + PartialEq>(bytes: &[u8]) -> Option<M> {
    let message: M = decoded(M::decode(bytes))?;
    let again = M::decode(&message.encode_to_vec()[..]);
    assert!(again.is_ok_and(|again| again == message));
    Some(message)
}

/// A message, its kind in the first byte, with its fields decoded.
pub fn messages(bytes: &[u8]) -> Option<()> {
    let (&kind, bytes) = bytes.split_first()?;
    match kind {
        0 => {
            let reply: v1::ListDatasetsReply = message(bytes)?;
            for info in reply.datasets {
                let known: DatasetInfo = decoded(info.clone().try_into())?;
                assert_eq!(v1::DatasetInfo::from(known), info);
            }
        }
        1 => match message::<v1::CountReply>(bytes)?.reply? {
            v1::count_reply::Reply::Moments(moments) => {
                let range = decoded(moments_range(&moments))?;
                assert_eq!(range.len() as u64, moments.moments);
            }
            v1::count_reply::Reply::Accepted(_) | v1::count_reply::Reply::Done(_) => {}
        },
        2 => {
            let request: v1::BeginUploadRequest = message(bytes)?;
            let manifest = decoded(Manifest::decode(&request.manifest))?;
            assert_eq!(manifest.encode(), request.manifest);
        }
        3 => {
            let chunk: v1::SegmentChunk = message(bytes)?;
            decoded(dataset_id(&chunk.start?.dataset))?;
        }
        4 => {
            let status: v1::UploadStatus = message(bytes)?;
            decoded(dataset_id(&status.dataset))?;
        }
        5 => match message::<v1::ScrubReply>(bytes)?.reply? {
            v1::scrub_reply::Reply::Damage(damage) => {
                let known: Damage = decoded(damage.clone().try_into())?;
                assert_eq!(v1::Damage::from(known), damage);
            }
            v1::scrub_reply::Reply::Progress(_) | v1::scrub_reply::Reply::Done(_) => {}
        },
        _ => {
            message::<v1::ServerInfoReply>(bytes)?;
        }
    }
    Some(())
}

/// A request to count, checked and planned as a server does.
pub fn question(bytes: &[u8]) -> Option<()> {
    let request: v1::CountRequest = message(bytes)?;
    decoded(digest(&request.root))?;
    let length = request.length as usize;
    let itemsets = decoded(Itemsets::new(
        length,
        columns(request.columns.clone()),
        COLUMNS,
    ))?;
    assert_eq!(column_numbers(itemsets.as_flat()), request.columns);
    let ranges = decoded(block_ranges(&request.ranges, BLOCKS))?;
    assert!(
        ranges
            .iter()
            .copied()
            .map(v1::BlockRange::from)
            .eq(request.ranges)
    );
    if itemsets.len() << length > USES {
        return None;
    }
    let index = MomentIndex::new(&itemsets);
    assert_eq!(index.level(), length);
    for moment in 0..index.len() {
        let (power, columns) = index.get(moment);
        assert_eq!(power + columns.len(), length);
        assert!(index.rank(power).contains(&moment));
        assert_eq!(index.find(columns), Some(moment));
    }
    Some(())
}

/// The parts of an answer, six bytes each: range, first moment, moments, bytes of residues (two),
/// and a seed byte for these. Every other part goes to a second share.
pub fn answer(bytes: &[u8]) -> Option<()> {
    let parts = bytes.chunks_exact(6);
    let combiner = &COMBINER;
    let mut shares = [combiner.phases(), combiner.phases()];
    for (i, part) in parts.enumerate() {
        let length = u16::from_le_bytes([part[3], part[4]]).into();
        let residues: Vec<u8> = (0..length)
            .map(|at: usize| part[5].wrapping_mul(at as u8))
            .collect();
        let first = usize::from(part[1]);
        let partial = Partial {
            range: part[0].into(),
            moments: first..first + usize::from(part[2]),
            residues: &residues,
        };
        decoded(combiner.absorb(&mut shares[i % 2], &partial))?;
    }
    let [mut all, other] = shares;
    decoded(combiner.merge(&mut all, &other))?;
    let answer = decoded(combiner.finish(&all))?;
    let slots = BLOCKS << 11;
    assert!(answer.supports.iter().all(|&support| support <= slots));
    assert!(answer.log2_largest_phase <= answer.log2_phase_bound);
    Some(())
}

/// Packed numbers, their width in the first byte, and packed residues.
pub fn packing(bytes: &[u8]) -> Option<()> {
    let (&width, bytes) = bytes.split_first()?;
    let bits = u32::from(width % 64) + 1;
    let packed = &bytes[..bytes.len() - bytes.len() % bits as usize];
    let mut numbers = vec![0; packed.len() * 8 / bits as usize];
    pack::unpack_bits(packed, bits, &mut numbers);
    assert!(numbers.iter().all(|number| number >> (bits - 1) <= 1));
    let mut again = vec![0xaa; packed.len()];
    pack::pack_bits(&numbers, bits, &mut again);
    assert_eq!(again, packed);

    let packed = &bytes[..bytes.len() / 7 * 7];
    let mut residues = vec![0; packed.len() / 7 * 2];
    pack::unpack(packed, &mut residues);
    assert!(residues.iter().all(|residue| residue >> 28 == 0));
    let mut again = vec![0xaa; packed.len()];
    pack::pack(&residues, &mut again);
    assert_eq!(again, packed);
    Some(())
}
