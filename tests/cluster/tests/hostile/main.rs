//! Attacks of tenants and of the subnet manager. Each is refused with a message that names the rule, and the tenant
//! `victim` keeps its port, its addresses and the routes of its node.
//!
//! Letters of attackers: `p` creates pods in one namespace, `n` creates networks there as well, `u` reaches the Services,
//! `f` controls the answers of the subnet manager. `cargo xtask test cluster --only hostile` selects all.

mod fabric_answers;
mod fixture;
mod networks;
mod partitions;
mod plugins;
mod pods;
mod webhook;

use ferroband_cluster_tests::shared_fixture::{FixtureTest, run_tests};
use fixture::HostileFixture;
use std::process::ExitCode;

/// Lists functions as tests. The prefix is that of a libtest module, so that one filter selects all.
macro_rules! attacks {
    ($($module:ident :: $name:ident),+ $(,)?) => {
        [$((concat!("hostile::", stringify!($name)), $module::$name)),+]
    };
}

fn main() -> ExitCode {
    let tests: [FixtureTest<'_, HostileFixture>; 33] = attacks![
        pods::p_default_network_of_another_namespace_is_refused,
        pods::p_network_of_another_namespace_is_refused,
        pods::p_more_networks_than_allowed_are_refused_at_admission,
        pods::p_more_networks_than_allowed_are_refused_at_add,
        pods::p_group_of_another_namespace_is_refused,
        networks::n_network_of_another_namespace_is_not_injected_into_a_group,
        networks::n_deeply_nested_sriovibnetwork_is_refused,
        networks::n_deeply_nested_spidermultusconfig_is_refused,
        networks::n_network_namespace_of_another_tenant_is_refused,
        networks::n_namespace_called_spiderpool_is_not_trusted,
        networks::n_deeply_nested_definition_is_refused,
        networks::n_huge_definition_is_refused,
        plugins::n_unlisted_plugin_is_refused,
        plugins::n_unlisted_plugin_in_a_chain_is_refused,
        plugins::n_unlisted_plugin_in_other_letter_case_is_refused,
        plugins::n_unlisted_ipam_plugin_is_refused,
        plugins::n_unlisted_plugin_of_a_file_is_refused,
        plugins::n_meta_plugin_is_refused,
        plugins::n_hidden_plugin_types_are_refused_at_admission,
        partitions::n_unlisted_pkey_is_refused,
        partitions::n_pkey_of_another_namespace_is_refused,
        partitions::n_pkey_of_another_namespace_with_the_member_bit_is_refused,
        partitions::n_pkeys_above_the_quota_are_refused,
        webhook::u_requests_of_any_shape_do_not_end_a_daemon,
        webhook::u_silent_connections_do_not_stop_the_webhook,
        webhook::u_large_requests_do_not_exceed_the_memory_budget,
        fabric_answers::f_answer_without_partitions_is_not_believed,
        webhook::u_silent_scrapes_do_not_stop_the_node_daemon,
        webhook::u_process_without_privileges_cannot_use_the_socket_or_read_the_state,
        fabric_answers::f_answer_that_drops_many_members_is_not_believed,
        fabric_answers::f_errors_of_the_subnet_manager_change_nothing,
        fabric_answers::f_answers_of_any_shape_do_not_end_the_leader,
        fabric_answers::f_config_map_cannot_redirect_ufm,
    ];
    run_tests(HostileFixture::start, &tests)
}
