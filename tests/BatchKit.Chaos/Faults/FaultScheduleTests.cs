namespace BatchKit.Chaos.Faults;

public sealed class FaultScheduleTests
{
    private static readonly TimeSpan Length = TimeSpan.FromMinutes(2);
    private static readonly string[] Nodes = ["game", "gateway"];

    [Fact]
    public void The_same_seed_draws_the_same_schedule() =>
        Assert.Equal(FaultSchedule.Draw(20, Length, Enum.GetValues<FaultKind>(), Nodes), FaultSchedule.Draw(20, Length, Enum.GetValues<FaultKind>(), Nodes));

    [Fact]
    public void Another_seed_draws_another_schedule() =>
        Assert.NotEqual(FaultSchedule.Draw(20, Length, Enum.GetValues<FaultKind>(), Nodes), FaultSchedule.Draw(21, Length, Enum.GetValues<FaultKind>(), Nodes));

    [Fact]
    public void Each_kind_that_is_asked_for_comes_up_and_no_other()
    {
        FaultKind[] kinds = [FaultKind.KillNode, FaultKind.FreezeBroker, FaultKind.JumpClock];

        var schedule = FaultSchedule.Draw(20, Length, kinds, Nodes);

        Assert.Equal(kinds.Order(), schedule.Select(fault => fault.Kind).Distinct().Order());
    }

    [Fact]
    public void Faults_of_one_target_do_not_overlap()
    {
        var schedule = FaultSchedule.Draw(20, Length, Enum.GetValues<FaultKind>(), Nodes);

        foreach (var target in schedule.GroupBy(fault => fault.Target))
            Assert.All(target.Zip(target.Skip(1)), pair => Assert.True(pair.First.At + pair.First.Length < pair.Second.At));
    }

    [Fact]
    public void Faults_of_the_broker_name_it_and_those_of_nodes_name_one()
    {
        var schedule = FaultSchedule.Draw(20, Length, Enum.GetValues<FaultKind>(), Nodes);

        Assert.All(schedule, fault => Assert.Equal(fault.Kind >= FaultKind.KillBroker, fault.Target == Fault.Broker));
        Assert.Equal(Nodes, schedule.Select(fault => fault.Target).Where(target => target != Fault.Broker).Distinct().Order());
    }
}
