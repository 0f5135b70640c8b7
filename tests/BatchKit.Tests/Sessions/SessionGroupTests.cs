using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>Groups that sessions join themselves, and the other control messages.</summary>
public sealed class SessionGroupTests : IAsyncDisposable
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    private readonly SessionRig _rig = new();

    public ValueTask DisposeAsync() => _rig.DisposeAsync();

    [Fact]
    public async Task A_groups_output_waits_for_members_that_are_away_in_one_copy()
    {
        var connections = Enumerable.Range(0, 200).Select(_ => _rig.Connections.Open()).ToArray();
        var sessions = Array.ConvertAll(connections, connection => _rig.Open(connection));
        foreach (var session in sessions)
            _rig.Output.Write(session.Handle, ControlMessage.JoinGroup("hall"));
        await _rig.SettleAsync();
        Array.ForEach(connections, _rig.Cut);

        _rig.Output.Write(Hall, new string('x', 10_000));
        await _rig.SettleAsync();

        Assert.Equal(200, _rig.Statistics.WaitingMessages);
        Assert.InRange(_rig.Statistics.WaitingBytes, 10_000, 20_000);
        var back = _rig.Connections.Open();
        _rig.Say(back, $"session resume {sessions[17].Token} 0");
        Assert.Equal(["resumed 1", "1 " + new string('x', 10_000)], await _rig.ReadAsync(back));
    }

    [Fact]
    public async Task Joining_and_leaving_keep_their_order_with_the_output_and_the_speaker_is_left_out()
    {
        var (first, second) = (_rig.Connections.Open(), _rig.Connections.Open());
        var (speaker, listener) = (_rig.Open(first, acknowledges: false), _rig.Open(second, acknowledges: false));
        _rig.Output.Write(Hall, "before");
        foreach (var session in new[] { speaker, listener })
            _rig.Output.Write(session.Handle, ControlMessage.JoinGroup("hall"));
        _rig.Output.Write(Hall, "by session", new MessageHeader { ExcludedConnections = [speaker.Handle] });
        _rig.Output.Write(Hall, "by connection", new MessageHeader { ExcludedConnections = [first] });
        _rig.Output.Write(Hall, "for all");
        _rig.Output.Write(listener.Handle, ControlMessage.LeaveGroup("hall"));
        _rig.Output.Write(Hall, "after");

        Assert.Equal(["for all", "after"], await _rig.ReadAsync(first));
        Assert.Equal(["by session", "by connection", "for all"], await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task Close_ends_the_session_behind_what_was_written_and_refuses_what_comes_later()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        await using (_rig.Output.BeginBufferingScope(session.Handle))
        {
            _rig.Output.Write(session.Handle, "bye");
            _rig.Output.Write(session.Handle, ControlMessage.Close);
        }

        await _rig.SettleAsync();
        _rig.Output.Write(session.Handle, "too late");
        await _rig.SettleAsync();

        Assert.True(session.HasEnded);
        Assert.False(_rig.Connections.IsOpen(connection));
        Assert.Equal((0, 0), (_rig.Statistics.Sessions, _rig.Statistics.LostMessages));
        Assert.Equal(1, _rig.Output.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task Close_ends_a_session_that_is_away_at_once()
    {
        var session = _rig.OpenAway();

        _rig.Output.Write(session.Handle, ControlMessage.Close);
        await _rig.SettleAsync();

        Assert.True(session.HasEnded);
        Assert.Equal(0, _rig.Statistics.Sessions);
    }

    [Theory]
    [InlineData(false, 1)]
    [InlineData(true, 2)]
    public async Task What_was_written_behind_a_close_is_counted_as_lost(bool isAway, int lost)
    {
        var session = isAway ? _rig.OpenAway() : _rig.Open(_rig.Connections.Open());

        await using (_rig.Output.BeginBufferingScope(session.Handle))
        {
            _rig.Output.Write(session.Handle, "bye");
            _rig.Output.Write(session.Handle, ControlMessage.Close);
            _rig.Output.Write(session.Handle, "never");
        }

        await _rig.SettleAsync();

        Assert.Equal((lost, lost), (session.LostMessages, _rig.Statistics.LostMessages));
        Assert.Equal((2, 2, 0), (_rig.Statistics.NumberedMessages, _rig.Statistics.DiscardedMessages, _rig.Statistics.WaitingMessages));
    }

    [Fact]
    public async Task A_control_message_that_is_unknown_has_no_effect()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection, acknowledges: false);

        _rig.Output.Write(session.Handle, [99, 1, 2], MessageHeader.Control);
        _rig.Output.Write(Hall, [3], MessageHeader.Control);
        _rig.Output.Write(session.Handle, "alive");

        Assert.Equal(["alive"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task A_session_that_has_ended_is_in_no_group()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        _rig.Output.Write(session.Handle, ControlMessage.JoinGroup("hall"));
        await _rig.SettleAsync();

        _rig.Sessions.End(session);
        _rig.Output.Write(Hall, "hello");
        await _rig.SettleAsync();

        Assert.Equal(0, _rig.Statistics.NumberedMessages);
        Assert.Equal((3, 0), (_rig.Output.GetStatistics().AcknowledgedMessages, _rig.Output.GetStatistics().FailedMessages));
    }

    [Theory]
    [InlineData(false, "by the connection")]
    [InlineData(true, "resumed 1", "1 by the connection")]
    public async Task Who_is_left_out_is_decided_when_it_is_written(bool acknowledges, params string[] expected)
    {
        var away = _rig.OpenAway(acknowledges);
        _rig.Output.Write(away.Handle, ControlMessage.JoinGroup("hall"));
        var back = _rig.Connections.Open();
        _rig.Output.Write(Hall, "by the connection", new MessageHeader { ExcludedConnections = [back] });
        _rig.Output.Write(away.Handle, "to all but itself", new MessageHeader { ExcludedConnections = [away.Handle] });
        await _rig.SettleAsync();

        _rig.Say(back, $"session resume {away.Token} 0");

        Assert.Equal(expected, await _rig.ReadAsync(back));
    }

    [Fact]
    public async Task A_forward_that_blocks_lets_no_member_of_a_large_group_get_a_message_twice()
    {
        var router = new BlockingRouter();
        await using var rig = new SessionRig(router: router);
        OutputHandle[] connections = [.. Enumerable.Range(0, 70).Select(_ => rig.Connections.Open())];
        foreach (var connection in connections)
            rig.Output.Write(rig.Open(connection, acknowledges: false).Handle, ControlMessage.JoinGroup("hall"));
        await rig.SettleAsync();
        router.Blocked = connections[60];

        rig.Output.Write(Hall, "first");
        await router.Blocks.Task.WithinDeadline();
        await Until.TrueAsync(() =>
        {
            rig.Clock.Advance(TimeSpan.FromSeconds(1));
            return rig.Output.GetStatistics().PendingMessages == 0;
        });
        var early = rig.Connections.Read(connections[0]);
        router.Unblock.Set();
        rig.Output.Write(Hall, "second");

        await Until.TrueAsync(() => rig.Statistics.WaitingMessages == 0);
        await rig.SettleAsync();
        Assert.Equal(["first"], early);
        Assert.All(connections[1..], connection => Assert.Equal(["first", "second"], rig.Connections.Read(connection)));
    }
}
