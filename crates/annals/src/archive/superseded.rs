//! Packs of the same session: each rename of its folder leaves one behind.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use super::pack::Pack;
use super::pack_index::{Checksum, Member, PackIndex};
use super::resumable_sha256::ResumableSha256;
use annals_layouts::layout;
use annals_layouts::model::{ArtifactKind, SessionId};

/// Returns, for each pack, the index of the one that supersedes it: itself, or one of the same
/// session whose log is equal or continues it. Of two equal packs, the newer one.
pub(crate) fn superseding_packs(packs: &[(&Path, &PackIndex)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..packs.len()).collect();
    let len = |index: &PackIndex| index.main_log().map(|main| main.len);
    order.sort_by_key(|&at| packs.get(at).map(|(_, it)| Reverse((len(it), it.archived))));
    let mut standing: Vec<usize> = (0..packs.len()).collect();
    let mut first: Vec<(usize, &Path, &PackIndex)> = Vec::new();
    for at in order {
        let Some(&(path, index)) = packs.get(at) else {
            continue;
        };
        let mut stands = first.iter();
        match stands.find(|(_, pack, other)| goes_on(pack, other, index)) {
            Some(&(other, ..)) => standing
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|it| *it = other),
            None => first.push((at, path, index)),
        }
    }
    standing
}

/// Returns whether a pack holds the same sessions as another, with logs that start with all bytes
/// of the other's logs.
fn goes_on(pack: &Path, index: &PackIndex, other: &PackIndex) -> bool {
    if !has_same_sessions(index, other) {
        return false;
    }
    let (logs, others) = (logs(index), logs(other));
    let has = |(session, was): &(SessionId, &Member)| {
        let mut logs = logs.iter().filter(|(id, _)| id == session);
        logs.any(|(_, log)| begins_with(pack, log, was))
    };
    !others.is_empty() && others.iter().all(has)
}

/// Returns whether two packs hold the same sessions of one root.
pub(super) fn has_same_sessions(one: &PackIndex, other: &PackIndex) -> bool {
    let ids = |index: &PackIndex| -> BTreeSet<String> {
        let sessions = index.sessions.iter();
        sessions.map(|it| it.id.clone()).collect()
    };
    let place = one.layout == other.layout && one.root == other.root && one.lone == other.lone;
    place && ids(one) == ids(other)
}

fn logs(index: &PackIndex) -> Vec<(SessionId, &Member)> {
    let layout = layout::by_name(&index.layout).filter(|_| !index.lone);
    let logs = index.members.iter().filter_map(|member| {
        let artifact = layout?.classify(&member.path)?;
        let is_log = artifact.kind == ArtifactKind::SessionLog;
        Some((artifact.session.filter(|_| is_log)?, member))
    });
    logs.collect()
}

/// Returns whether a log is the same file (device and inode) as another was and starts with all its
/// bytes. A copied log is another file, and so another session. The content is read only if `log`
/// is longer.
fn begins_with(pack: &Path, log: &Member, was: &Member) -> bool {
    (log.dev, log.ino) == (was.dev, was.ino) && has_all(pack, log, was)
}

/// Returns whether a file of a pack starts with all bytes of `was`.
pub(super) fn has_all(pack: &Path, file: &Member, was: &Member) -> bool {
    match file.len == was.len {
        true => file.sha256 == was.sha256,
        false => file.len > was.len && beginning(pack, file, was.len) == Some(was.sha256),
    }
}

/// Returns the checksum of the first `len` bytes of a file; `None` if they cannot be read.
fn beginning(pack: &Path, member: &Member, mut len: u64) -> Option<Checksum> {
    let pack = Pack::open(pack).ok()?;
    // The pack may have been written to since its index was read.
    let member = pack.member(&member.path)?;
    let mut sum = ResumableSha256::new();
    for part in &member.parts {
        let take = usize::try_from(len).unwrap_or(usize::MAX);
        let taken = pack.with_part(part, |bytes| {
            let bytes = bytes.get(..take).unwrap_or(bytes);
            sum.update(bytes);
            bytes.len() as u64
        });
        len = len.saturating_sub(taken.ok()?);
        if len == 0 {
            break;
        }
    }
    (len == 0).then(|| sum.sum())
}
