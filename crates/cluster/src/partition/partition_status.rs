//! Computes the status of a Partition object, and the events about members that it does not admit. Does no I/O.

use super::desired::{DesiredMemberships, MemberId, NotAdmittedMember, NotAdmittedTreatment};
use ferroband_api::ferroband::{Partition, PartitionStatus};
use ferroband_daemon::condition;
use ferroband_partition::RequestedPKey;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;
use std::collections::BTreeSet;

/// Number of pods that a message names.
const MAX_NAMED_PODS: usize = 10;

/// Computes the number of members, and whether all members are admitted. Returns `None` if the P_Key of the Partition
/// is invalid.
pub fn compute(partition: &Partition, desired: &DesiredMemberships) -> Option<PartitionStatus> {
    let key: RequestedPKey = partition.spec.pkey.parse().ok()?;
    let before = partition.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let not_admitted: Vec<&NotAdmittedMember> =
        desired.not_admitted.values().filter(|entry| entry.key == key).collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let treated = |treatment: NotAdmittedTreatment| {
        let of_kind = not_admitted.iter().filter(move |entry| entry.treatment == treatment);
        let pods: BTreeSet<String> = of_kind.map(|entry| pod_name(entry)).collect();
        pods
    };
    let kept = treated(NotAdmittedTreatment::Kept);
    let refused = treated(NotAdmittedTreatment::Refused);
    let warned = treated(NotAdmittedTreatment::Warned);
    let mut messages = Vec::new();
    if !kept.is_empty() {
        messages.push(format!(
            "{} stay members until they end, because they ran before the Partition was enforced; to remove them now, set spec.removeRunningMembers to true",
            name_pods(&kept)
        ));
    }
    if !refused.is_empty() {
        messages.push(format!("{} are not members", name_pods(&refused)));
    }
    if !warned.is_empty() {
        messages.push(format!("{} are members, because the mode is warn", name_pods(&warned)));
    }
    let reason = match () {
        () if !kept.is_empty() => "RunningMembersKept",
        () if !refused.is_empty() => "MembersRefused",
        () if !warned.is_empty() => "MembersWarned",
        () => "AllAdmitted",
    };
    let message = match messages.is_empty() {
        true => "all members are in namespaces that the Partition admits".to_owned(),
        false => format!("pods of namespaces that the Partition does not admit: {}", messages.join("; ")),
    };
    Some(PartitionStatus {
        members: count(desired.table.members(key).count()),
        not_admitted: count(not_admitted.len()),
        conditions: vec![condition(
            before,
            "MembersAdmitted",
            Some(not_admitted.is_empty()),
            reason,
            message,
        )],
    })
}

/// The text of the event about a member that is not admitted.
pub fn event_text(entry: &NotAdmittedMember) -> String {
    let effect = match entry.treatment {
        NotAdmittedTreatment::Warned => return entry.reason.clone(),
        NotAdmittedTreatment::Kept => {
            "the pod stays a member until it ends, or until an administrator sets removeRunningMembers of the Partition"
        }
        NotAdmittedTreatment::Refused => "the pod is not a member of the partition",
    };
    format!("{}; {effect}", entry.reason)
}

/// The pod of a member, as the object of an event.
pub fn event_pod(entry: &NotAdmittedMember) -> Pod {
    let member = &entry.member;
    let metadata = ObjectMeta {
        namespace: Some(member.namespace.clone()),
        name: Some(member.pod.clone()),
        uid: Some(member.uid.clone()),
        ..ObjectMeta::default()
    };
    Pod { metadata, ..Pod::default() }
}

/// Members that are not admitted and about which no event was published, or only one with another treatment.
/// `published` is updated: it forgets members that are gone, and gets at most `limit` new ones.
pub fn take_news(
    desired: &DesiredMemberships,
    published: &mut BTreeSet<(MemberId, NotAdmittedTreatment)>,
    limit: usize,
) -> Vec<NotAdmittedMember> {
    let is_current = |at: &MemberId, treatment| {
        desired.not_admitted.get(at).is_some_and(|entry| entry.treatment == treatment)
    };
    published.retain(|(at, treatment)| is_current(at, *treatment));
    let news = desired
        .not_admitted
        .iter()
        .filter(|(at, entry)| !published.contains(&((*at).clone(), entry.treatment)))
        .take(limit)
        .map(|(at, entry)| ((at.clone(), entry.treatment), entry.clone()));
    let (marks, news): (Vec<_>, Vec<_>) = news.unzip();
    published.extend(marks);
    news
}

fn pod_name(entry: &NotAdmittedMember) -> String {
    format!("{}/{}", entry.member.namespace, entry.member.pod)
}

fn name_pods(pods: &BTreeSet<String>) -> String {
    let mut text = pods.iter().take(MAX_NAMED_PODS).cloned().collect::<Vec<_>>().join(", ");
    if pods.len() > MAX_NAMED_PODS {
        text.push_str(&format!(" and {} others", pods.len() - MAX_NAMED_PODS));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::ferroband::{NodeMember, PartitionSpec};

    fn desired(pods: usize, treatment: NotAdmittedTreatment) -> DesiredMemberships {
        let entry = |number: usize| {
            let member = NodeMember {
                namespace: "evil".into(),
                pod: format!("p{number:02}"),
                ..NodeMember::default()
            };
            let key = "0x3e8".parse().unwrap();
            let entry = NotAdmittedMember { key, member, treatment, reason: "not admitted".into() };
            (("n1".to_owned(), format!("c{number}.net1")), entry)
        };
        DesiredMemberships { not_admitted: (0..pods).map(entry).collect(), ..DesiredMemberships::default() }
    }

    fn admitted(desired: &DesiredMemberships) -> (i32, String, String) {
        let spec = PartitionSpec { pkey: "1000".into(), ..PartitionSpec::default() };
        let status = compute(&Partition::new("red", spec), desired).unwrap();
        let condition = &status.conditions[0];
        (status.not_admitted, condition.reason.clone(), condition.message.clone())
    }

    #[test]
    fn condition_names_the_pods_that_are_kept_and_the_field_that_removes_them() {
        let (count, reason, message) = admitted(&desired(12, NotAdmittedTreatment::Kept));
        assert_eq!((count, reason.as_str()), (12, "RunningMembersKept"));
        for part in ["evil/p00", "evil/p09", "and 2 others", "removeRunningMembers"] {
            assert!(message.contains(part), "{part} is missing in {message}");
        }
        assert_eq!(admitted(&desired(1, NotAdmittedTreatment::Refused)).1, "MembersRefused");
        assert_eq!(admitted(&desired(1, NotAdmittedTreatment::Warned)).1, "MembersWarned");
        assert_eq!(admitted(&DesiredMemberships::default()).1, "AllAdmitted");
    }

    #[test]
    fn each_member_is_news_once_for_each_treatment() {
        let mut published = BTreeSet::new();
        let kept = desired(3, NotAdmittedTreatment::Kept);
        assert_eq!(take_news(&kept, &mut published, 2).len(), 2);
        assert_eq!(take_news(&kept, &mut published, 2).len(), 1);
        assert!(take_news(&kept, &mut published, 2).is_empty());
        assert_eq!(take_news(&desired(3, NotAdmittedTreatment::Refused), &mut published, 9).len(), 3);
        assert!(take_news(&DesiredMemberships::default(), &mut published, 9).is_empty());
        assert!(published.is_empty());
    }
}
