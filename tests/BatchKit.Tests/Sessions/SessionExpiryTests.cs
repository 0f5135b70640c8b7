using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>Messages with a time to live keep their deadline while they wait in a session.</summary>
public sealed class SessionExpiryTests : IAsyncDisposable
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");
    private static readonly MessageHeader Second = new() { TimeToLive = TimeSpan.FromSeconds(1) };

    private readonly SessionRig _rig = new();

    public ValueTask DisposeAsync() => _rig.DisposeAsync();

    [Fact]
    public async Task An_expired_message_in_a_session_is_a_gap_and_counted()
    {
        var session = _rig.OpenAway();
        foreach (var (text, header) in new[] { ("old", Second), ("as old", Second), ("chat", null), ("old too", Second), ("more chat", null) })
            _rig.Output.Write(session.Handle, text, header);
        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromSeconds(1));
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");
        var lines = await _rig.ReadAsync(second);
        _rig.Say(second, "session ack 5");

        Assert.Equal(["resumed 1", "gap 1 2", "3 chat", "gap 4 4", "5 more chat"], lines);
        var statistics = _rig.Statistics;
        Assert.Equal((5, 3, 2, 3, 0, 0), (statistics.NumberedMessages, statistics.ExpiredMessages, statistics.AcknowledgedMessages, statistics.LostMessages, statistics.WaitingMessages, statistics.WaitingBytes));
    }

    [Fact]
    public async Task A_client_that_resumes_again_is_told_again_and_the_loss_counts_once()
    {
        var session = _rig.OpenAway();
        _rig.Output.Write(session.Handle, "old", Second);
        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromSeconds(1));
        var lines = new List<string>();

        for (var attempt = 0; attempt < 3; attempt++)
        {
            var next = _rig.Connections.Open();
            _rig.Say(next, $"session resume {session.Token} 0");
            lines.AddRange(await _rig.ReadAsync(next));
            _rig.Cut(next);
        }

        Assert.Equal(["resumed 1", "gap 1 1", "resumed 1", "gap 1 1", "resumed 1", "gap 1 1"], lines);
        Assert.Equal((1, 1), (_rig.Statistics.ExpiredMessages, _rig.Statistics.LostMessages));
        _rig.Sessions.End(session);
        Assert.Equal((0, 0, 0), (_rig.Statistics.WaitingMessages, _rig.Statistics.WaitingBytes, _rig.Statistics.DiscardedMessages));
    }

    [Fact]
    public async Task A_telnet_client_does_not_get_what_has_expired()
    {
        var session = _rig.OpenAway(acknowledges: false);
        _rig.Output.Write(session.Handle, "old", Second);
        _rig.Output.Write(session.Handle, "chat");
        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromSeconds(1));
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token}");

        Assert.Equal(["chat"], await _rig.ReadAsync(second));
        Assert.Equal((1, 1, 1, 0), (_rig.Statistics.ExpiredMessages, _rig.Statistics.LostMessages, _rig.Statistics.AcknowledgedMessages, _rig.Statistics.WaitingBytes));
    }

    [Fact]
    public async Task The_time_in_the_buffer_before_the_session_counts_too()
    {
        var session = _rig.OpenAway();
        using (_rig.Output.BeginBufferingScope(session.Handle))
        {
            _rig.Output.Write(session.Handle, "expires in the buffer", new MessageHeader { TimeToLive = TimeSpan.FromMilliseconds(500) });
            _rig.Output.Write(session.Handle, "expires in the session", Second);
            _rig.Output.Write(session.Handle, "chat");
            _rig.Clock.Advance(TimeSpan.FromMilliseconds(600));
        }

        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromMilliseconds(500));
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "gap 1 1", "2 chat"], await _rig.ReadAsync(second));
        Assert.Equal((1, 1), (_rig.Statistics.ExpiredMessages, _rig.Output.GetStatistics().ExpiredMessages));
    }

    [Fact]
    public async Task What_is_forwarded_in_time_and_then_waits_in_the_buffer_expires_there_and_is_a_gap_at_the_next_resume()
    {
        var session = _rig.OpenAway();
        _rig.Output.Write(session.Handle, "value", Second);
        _rig.Output.Write(session.Handle, "chat");
        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromMilliseconds(600));
        var second = _rig.Connections.Open();

        using (_rig.Output.BeginBufferingScope(second))
        {
            _rig.Say(second, $"session resume {session.Token} 0");
            _rig.Clock.Advance(TimeSpan.FromMilliseconds(600));
        }

        Assert.Equal(["resumed 1", "2 chat"], await _rig.ReadAsync(second));
        Assert.Equal(1, _rig.Output.GetStatistics().ExpiredMessages);
        _rig.Say(second, $"session resume {session.Token} 0");
        Assert.Equal(["resumed 1", "gap 1 1", "2 chat"], await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task Each_hole_that_expiry_in_the_buffer_leaves_is_a_gap_at_once()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        await _rig.ReadAsync(connection);

        for (var last = 0; last < 6; last += 2)
        {
            await WriteLateAsync(connection, session);
            Assert.Equal([$"{last + 2} chat"], await _rig.ReadAsync(connection));
            _rig.Say(connection, $"session resume {session.Token} {last}");
            Assert.Equal([$"resumed {last + 1}", $"gap {last + 1} {last + 1}", $"{last + 2} chat"], await _rig.ReadAsync(connection));
        }

        // What it has had is not repeated so soon.
        _rig.Say(connection, $"session resume {session.Token} 0");
        Assert.Empty(await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task What_expires_in_the_buffer_while_it_is_repeated_is_a_gap_at_once()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        await _rig.ReadAsync(connection);
        await WriteLateAsync(connection, session);
        _rig.Output.Write(session.Handle, "later value", Second);
        await _rig.ReadAsync(connection);

        using (_rig.Output.BeginBufferingScope(connection))
        {
            _rig.Say(connection, $"session resume {session.Token} 0");
            _rig.Clock.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal(["resumed 1", "gap 1 1", "2 chat"], await _rig.ReadAsync(connection));
        _rig.Output.Write(session.Handle, "more chat");
        Assert.Equal(["4 more chat"], await _rig.ReadAsync(connection));
        _rig.Say(connection, $"session resume {session.Token} 2");
        Assert.Equal(["resumed 3", "gap 3 3", "4 more chat"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task What_is_taken_up_in_time_arrives()
    {
        var session = _rig.OpenAway();
        _rig.Output.Write(session.Handle, "value", Second);
        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromMilliseconds(999));
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "1 value"], await _rig.ReadAsync(second));
        Assert.Equal((0, 0), (_rig.Statistics.ExpiredMessages, _rig.Statistics.LostMessages));
    }

    [Fact]
    public async Task A_newer_value_follows_one_that_has_expired_and_members_of_a_group_expire_alike()
    {
        var (first, second) = (_rig.Connections.Open(), _rig.Connections.Open());
        var (here, away) = (_rig.Open(first), _rig.Open(second));
        foreach (var session in new[] { here, away })
            _rig.Output.Write(session.Handle, ControlMessage.JoinGroup("hall"));
        await _rig.SettleAsync();
        _rig.Cut(second);
        _rig.Output.WriteLatest(Hall, 1, "old", Second);
        await _rig.SettleAsync();
        _rig.Clock.Advance(TimeSpan.FromSeconds(1));

        var third = _rig.Connections.Open();
        _rig.Say(third, $"session resume {away.Token} 0");
        _rig.Output.WriteLatest(Hall, 1, "new", Second);

        Assert.Equal([$"session {here.Token}", "1 old", "2 new"], await _rig.ReadAsync(first));
        Assert.Equal(["resumed 1", "gap 1 1", "2 new"], await _rig.ReadAsync(third));
        Array.ForEach([here, away], session => _rig.Sessions.End(session));
        Assert.Equal((0, 0), (_rig.Statistics.WaitingMessages, _rig.Statistics.WaitingBytes));
    }

    // The first of two messages expires after it was forwarded.
    private async Task WriteLateAsync(OutputHandle connection, Session session)
    {
        using var scope = _rig.Output.BeginBufferingScope(connection);
        _rig.Output.Write(session.Handle, "value", Second);
        await _rig.Output.FlushAsync(session.Handle).WithinDeadline();
        _rig.Clock.Advance(TimeSpan.FromSeconds(1));
        _rig.Output.Write(session.Handle, "chat");
        await _rig.Output.FlushAsync(session.Handle).WithinDeadline();
    }
}
