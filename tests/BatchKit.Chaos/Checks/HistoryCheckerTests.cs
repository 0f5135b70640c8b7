using BatchKit.Chaos.Faults;

namespace BatchKit.Chaos.Checks;

/// <summary>Each rule, with a history that keeps it and one that does not.</summary>
public sealed class HistoryCheckerTests
{
    private static readonly Guarantee Queue = new("a queue") { Doubling = Doubling.WhenClaimLost, OrderedWithGroups = false };

    [Fact]
    public void A_message_that_arrives_once_keeps_all_rules() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).Check());

    [Fact]
    public void An_acknowledged_message_that_does_not_arrive_is_lost() =>
        Assert.Equal(["lost"], new HandMadeRun().WriteAndSettle(0).Check());

    [Fact]
    public void A_message_of_a_killed_process_that_was_not_acknowledged_may_be_missing() =>
        Assert.Empty(new HandMadeRun().Write(0).Kill("game").Check());

    [Fact]
    public void A_group_message_has_to_arrive_at_each_node() =>
        Assert.Equal(["lost"], new HandMadeRun().WriteAndSettle(0, HandMadeRun.Group).Arrive("gateway", 0).Check());

    [Fact]
    public void A_group_message_that_arrived_at_each_node_is_not_doubled() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0, HandMadeRun.Group).Arrive("gateway", 0).Arrive("other gateway", 0).Check());

    [Fact]
    public void A_message_that_arrives_twice_at_one_process_is_doubled() =>
        Assert.Equal(["doubled"], new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).Arrive("gateway", 0).Check());

    [Fact]
    public void What_a_receiver_received_last_may_come_again_when_it_has_ended() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0).WriteAndSettle(1).WriteAndSettle(2)
            .Arrive("gateway", 0).Arrive("gateway", 1).Arrive("gateway", 2).Kill("gateway")
            .Arrive("gateway", 1, version: 2).Arrive("gateway", 2, version: 2).Check());

    [Fact]
    public void What_a_receiver_received_before_the_last_may_not_come_again() =>
        Assert.Equal(["doubled"], new HandMadeRun().WriteAndSettle(0).WriteAndSettle(1)
            .Arrive("gateway", 0).Arrive("gateway", 1).Kill("gateway")
            .Arrive("gateway", 0, version: 2).Check());

    [Fact]
    public void What_a_killed_broker_had_not_confirmed_need_not_come_again() =>
        Assert.Empty(new HandMadeRun().Write(0).Write(1)
            .Arrive("gateway", 0).Arrive("gateway", 1).Kill("game").Break(FaultKind.KillBroker, Fault.Broker).Kill("gateway")
            .Arrive("gateway", 0, version: 2).Check());

    [Fact]
    public void What_a_killed_broker_had_confirmed_comes_again_behind_what_came_before_it() =>
        Assert.Equal(["doubled"], new HandMadeRun().WriteAndSettle(0).WriteAndSettle(1)
            .Arrive("gateway", 0).Arrive("gateway", 1).Break(FaultKind.KillBroker, Fault.Broker).Kill("gateway")
            .Arrive("gateway", 0, version: 2).Check());

    [Fact]
    public void A_message_may_not_come_again_at_another_process_while_the_first_lives() =>
        Assert.Equal(["doubled"], new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).Arrive("gateway", 0, version: 2).Check());

    [Fact]
    public void Messages_of_one_connection_arrive_in_the_order_of_their_writes() =>
        Assert.Equal(["reordered"], new HandMadeRun().WriteAndSettle(0).WriteAndSettle(1).Arrive("gateway", 1).Arrive("gateway", 0).Check());

    [Fact]
    public void Messages_of_different_connections_have_no_order() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0).WriteAndSettle(1, HandMadeRun.Ben).Arrive("gateway", 1).Arrive("gateway", 0).Check());

    [Fact]
    public void A_groups_message_keeps_its_place_among_those_of_a_connection() =>
        Assert.Equal(["reordered"], new HandMadeRun().WriteAndSettle(0, HandMadeRun.Group).WriteAndSettle(1).Arrive("gateway", 1).Arrive("gateway", 0).Arrive("other gateway", 0).Check());

    [Fact]
    public void A_message_may_not_arrive_first_behind_a_later_one_at_an_earlier_process() =>
        Assert.Equal(["reordered"], new HandMadeRun().WriteAndSettle(0).WriteAndSettle(1).Arrive("gateway", 1).Kill("gateway").Arrive("gateway", 0, version: 2).Check());

    [Fact]
    public void Messages_of_two_processes_of_one_writer_have_no_order() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0).Kill("game").WriteAndSettle(0, version: 2).Arrive("gateway", 0, writer: 2).Arrive("gateway", 0).Check());

    [Fact]
    public void A_message_that_no_one_wrote_is_invented() =>
        Assert.Equal(["invented"], new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).Arrive("gateway", 1).Check());

    [Fact]
    public void A_message_that_was_about_to_be_written_may_arrive_without_a_word_of_its_acceptance() =>
        Assert.Empty(new HandMadeRun().Write(0).Kill("game").Arrive("gateway", 0).Check());

    [Fact]
    public void A_message_that_arrives_at_a_node_that_it_is_not_for_is_misdirected() =>
        Assert.Equal(["misdirected"], new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).Arrive("other gateway", 0).Check());

    [Fact]
    public void A_process_that_ends_normally_tells_what_became_of_each_message() =>
        Assert.Equal(["unsettled"], new HandMadeRun().Write(0).Arrive("gateway", 0).Check());

    [Fact]
    public void A_loss_may_be_reported_by_a_process_that_is_told_to_end() =>
        Assert.Empty(new HandMadeRun().Write(0).Stop("game").Settle(0, lost: 1).End("game", [1, 0, 0, 1, 0]).Check());

    [Fact]
    public void A_loss_may_not_be_reported_by_a_process_that_runs() =>
        Assert.Equal(["given up"], new HandMadeRun().Write(0).Settle(0, lost: 1).Check());

    [Fact]
    public void A_loss_may_be_reported_by_a_process_that_runs_when_the_guarantee_names_the_fault() =>
        Assert.Empty(new HandMadeRun().Write(0).Break(FaultKind.KillBroker, Fault.Broker).Settle(0, lost: 1)
            .Check(new Guarantee("a broker that rejects") { Failing = new HashSet<FaultKind> { FaultKind.KillBroker } }));

    [Fact]
    public void A_task_may_be_handled_again_when_a_fault_meets_its_worker() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).Arrive("gateway", 0, row: 7).Break(FaultKind.FreezeNode, "gateway").Arrive("other gateway", 0, row: 7).Check(Queue));

    [Fact]
    public void A_task_may_be_handled_again_by_the_worker_whose_claim_was_delayed() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).Arrive("other gateway", 0, row: 7).Break(FaultKind.DelayConnections, "gateway").Arrive("gateway", 0, row: 7).Check(Queue));

    [Fact]
    public void A_task_may_not_be_handled_again_when_a_fault_meets_another_worker() =>
        Assert.Equal(["doubled"], new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).Arrive("gateway", 0, row: 7).Break(FaultKind.FreezeNode, "game").Arrive("other gateway", 0, row: 7).Check(Queue));

    [Fact]
    public void A_task_may_not_be_stored_twice() =>
        Assert.Equal(["doubled"], new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).Arrive("gateway", 0, row: 7).Break(FaultKind.KillBroker, Fault.Broker).Arrive("gateway", 0, row: 8).Check(Queue));

    [Fact]
    public void A_task_that_no_worker_handled_is_lost() =>
        Assert.Equal(["lost"], new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).Check(Queue));

    [Fact]
    public void Tasks_of_one_key_are_handled_in_order_by_whichever_worker() =>
        Assert.Equal(["reordered"], new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).WriteAndSettle(1, HandMadeRun.Key).Arrive("gateway", 1, row: 2).Arrive("other gateway", 0, row: 1).Check(Queue));

    [Fact]
    public void Tasks_of_two_keys_have_no_order() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0, HandMadeRun.Key).WriteAndSettle(1, HandMadeRun.OtherKey).Arrive("gateway", 1, row: 2).Arrive("gateway", 0, row: 1).Check(Queue));

    [Fact]
    public void Counters_that_add_up_and_say_what_the_history_says_are_conserved() =>
        Assert.Empty(new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).End("game", [1, 1, 0, 0, 0]).End("gateway", [0, 0, 0, 0, 0], [2, 1, 1, 0, 0, 0, 0, 0]).Check());

    [Theory]
    [InlineData(new long[] { 2, 1, 0, 0, 0 })]
    [InlineData(new long[] { 2, 2, 0, 0, 0 })]
    [InlineData(new long[] { 1, 0, 0, 0, 1 })]
    [InlineData(new long[] { 1, 0, 1, 0, 0 })]
    public void Counters_of_a_buffer_that_do_not_add_up_or_differ_from_the_history_are_found(long[] output) =>
        Assert.Contains("conservation", new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).End("game", output).Check());

    [Theory]
    [InlineData(new long[] { 2, 1, 0, 0, 0, 0, 0, 0 })]
    [InlineData(new long[] { 2, 2, 0, 0, 0, 0, 0, 0 })]
    [InlineData(new long[] { 2, 1, 0, 0, 1, 0, 0, 0 })]
    [InlineData(new long[] { 1, 1, 0, 0, 0, 0, 1, 0 })]
    [InlineData(new long[] { 1, 1, 0, 0, 0, 0, 0, 1 })]
    public void Counters_of_a_receiver_that_do_not_add_up_or_differ_from_the_history_are_found(long[] input) =>
        Assert.Equal(["conservation"], new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).End("gateway", [0, 0, 0, 0, 0], input).Check());

    [Fact]
    public void A_process_that_was_told_to_end_and_wrote_no_counters_is_found() =>
        Assert.Equal(["ending"], new HandMadeRun().WriteAndSettle(0).Arrive("gateway", 0).Stop("game").Check());
}
