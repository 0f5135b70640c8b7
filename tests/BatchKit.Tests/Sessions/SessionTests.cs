using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

public sealed class SessionTests : IAsyncDisposable
{
    private readonly SessionRig _rig = new();

    public ValueTask DisposeAsync() => _rig.DisposeAsync();

    [Fact]
    public async Task A_client_that_acknowledges_gets_its_token_and_numbered_messages()
    {
        var connection = _rig.Connections.Open();

        var opened = _rig.Say(connection, "session open\r\n");
        _rig.Output.Write(opened.Session!.Handle, "hello");
        _rig.Output.Write(opened.Session.Handle, "world");

        Assert.Equal(SessionLineKind.Opened, opened.Kind);
        Assert.Equal([$"session {opened.Session.Token}", "1 hello", "2 world"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task What_one_scope_held_leaves_as_one_message()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection, acknowledges: false);

        await using (_rig.Output.BeginBufferingScope(session.Handle))
        {
            for (var line = 0; line < 1000; line++)
                _rig.Output.Write(session.Handle, "line");
        }

        await _rig.SettleAsync();
        Assert.Equal([1000], _rig.Connections.Batches);
    }

    [Fact]
    public async Task What_was_not_received_comes_again_at_another_connection_once_and_before_what_is_written_later()
    {
        var first = _rig.Connections.Open();
        var session = _rig.Open(first);
        Write(session, "a", "b", "c");
        await _rig.SettleAsync();
        _rig.Cut(first);
        Write(session, "d");
        var second = _rig.Connections.Open();

        var resumed = _rig.Say(second, $"session resume {session.Token} 2");
        Write(session, "e");

        Assert.Equal(SessionLineKind.Resumed, resumed.Kind);
        Assert.Same(session, resumed.Session);
        Assert.Equal(["resumed 3", "3 c", "4 d", "5 e"], await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task What_was_acknowledged_leaves_the_history()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        Write(session, "a", "b", "c");
        await _rig.SettleAsync();

        var acknowledged = _rig.Say(connection, "session ack 2");

        Assert.Equal(SessionLineKind.Acknowledged, acknowledged.Kind);
        Assert.Equal((1, 2), (_rig.Statistics.WaitingMessages, _rig.Statistics.AcknowledgedMessages));
        _rig.Say(connection, "session ack 3");
        Assert.Equal((0, 0), (_rig.Statistics.WaitingMessages, _rig.Statistics.WaitingBytes));
    }

    [Fact]
    public async Task A_client_that_asks_for_what_it_has_acknowledged_is_told_of_the_gap()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        Write(session, "a", "b", "c");
        await _rig.SettleAsync();
        _rig.Say(connection, "session ack 2");
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "gap 1 2", "3 c"], await _rig.ReadAsync(second));
        Assert.Equal(0, _rig.Statistics.LostMessages);
    }

    [Fact]
    public async Task A_session_that_does_not_acknowledge_keeps_output_only_while_its_client_is_away()
    {
        var first = _rig.Connections.Open();
        var session = _rig.Open(first, acknowledges: false);
        Write(session, "a");
        var before = await _rig.ReadAsync(first);
        var waitingBefore = _rig.Statistics.WaitingMessages;
        _rig.Cut(first);
        Write(session, "b", "c");
        await _rig.SettleAsync();
        var waiting = _rig.Statistics.WaitingMessages;
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token}");
        Write(session, "d");

        Assert.Equal(["a"], before);
        Assert.Equal((0, 2), (waitingBefore, waiting));
        Assert.Equal(["b", "c", "d"], await _rig.ReadAsync(second));
        Assert.Equal(0, _rig.Statistics.WaitingMessages);
    }

    [Fact]
    public async Task A_client_that_misses_a_number_resumes_at_the_same_connection()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        Write(session, "a", "b", "c");
        await _rig.ReadAsync(connection);

        _rig.Say(connection, $"session resume {session.Token} 1");

        Assert.Equal(["resumed 2", "2 b", "3 c"], await _rig.ReadAsync(connection));
        Assert.True(_rig.Connections.IsOpen(connection));
    }

    [Fact]
    public async Task What_was_lost_under_way_comes_again_when_the_client_repeats_its_acknowledgement()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        Write(session, "a", "b", "c");
        await _rig.ReadAsync(connection);

        _rig.Say(connection, "session ack 1");
        var once = await _rig.ReadAsync(connection);
        _rig.Say(connection, "session ack 1");

        Assert.Empty(once);
        Assert.Equal(["2 b", "3 c"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task A_client_that_does_not_come_back_in_time_loses_its_session()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        Write(session, "a");
        await _rig.SettleAsync();
        _rig.Cut(connection);

        _rig.Clock.Advance(TimeSpan.FromSeconds(110));
        var aliveBefore = !session.HasEnded;
        _rig.Clock.Advance(TimeSpan.FromSeconds(30));

        Assert.True(aliveBefore);
        Assert.True(session.HasEnded);
        Assert.Equal((0, 1, 1, 1), (_rig.Statistics.Sessions, _rig.Statistics.ExpiredSessions, _rig.Statistics.DiscardedMessages, _rig.Statistics.LostMessages));
        var second = _rig.Connections.Open();
        Assert.Equal(SessionLineKind.Refused, _rig.Say(second, $"session resume {session.Token} 0").Kind);
        Assert.Equal(["expired"], await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task A_client_that_says_nothing_for_as_long_is_taken_for_away_and_its_connection_closed()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        var other = _rig.Connections.Open();
        _rig.Open(other);

        _rig.Clock.Advance(TimeSpan.FromSeconds(100));
        _rig.Say(other, "session ack 0");
        _rig.Clock.Advance(TimeSpan.FromSeconds(40));
        await _rig.SettleAsync();

        Assert.True(session.Connection.IsNone);
        Assert.Equal((false, true), (_rig.Connections.IsOpen(connection), _rig.Connections.IsOpen(other)));
        Assert.Equal((2, 1), (_rig.Statistics.Sessions, _rig.Statistics.AwaySessions));
    }

    [Fact]
    public async Task A_client_that_speaks_every_30_s_stays_though_who_is_away_loses_its_session_sooner()
    {
        await using var rig = new SessionRig(new SessionOptions { AwayTimeout = TimeSpan.FromSeconds(20) });
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);

        for (var line = 0; line < 10; line++)
        {
            rig.Clock.Advance(TimeSpan.FromSeconds(30));
            rig.Say(connection, "session ack 0");
        }

        Assert.Equal(connection, session.Connection);
        Assert.True(rig.Connections.IsOpen(connection));
    }

    [Fact]
    public async Task A_session_keeps_the_newest_value_of_each_key_and_tells_which_numbers_it_skips()
    {
        var session = _rig.OpenAway();
        for (var step = 1; step <= 3; step++)
        {
            _rig.Output.WriteLatest(session.Handle, key: 1, "x"u8);
            await _rig.SettleAsync();
        }

        Write(session, "chat");
        _rig.Output.WriteLatest(session.Handle, key: 1, "newest"u8);
        await _rig.SettleAsync();
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "skip 1 3", "4 chat", "5 newest"], await _rig.ReadAsync(second));
        Assert.Equal(3, _rig.Statistics.SupersededMessages);
    }

    [Fact]
    public async Task Limits_drop_the_oldest_and_the_client_is_told_exactly_which()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 1024 });
        var session = rig.OpenAway();
        for (var line = 1; line <= 20; line++)
            rig.Output.Write(session.Handle, "line");
        await rig.SettleAsync();
        var second = rig.Connections.Open();

        rig.Say(second, $"session resume {session.Token} 0");

        // 1,024 bytes are seven messages of 4 + 128.
        Assert.Equal(["resumed 1", "gap 1 13", .. Enumerable.Range(14, 7).Select(number => $"{number} line")], await rig.ReadAsync(second));
        Assert.Equal((13, 13), (rig.Statistics.EvictedMessages, rig.Statistics.LostMessages));
        Assert.InRange(rig.Statistics.WaitingBytes, 1, 1024);
    }

    [Fact]
    public async Task A_session_tells_what_its_client_lost()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 1024 });
        var (first, second) = (rig.Connections.Open(), rig.Connections.Open());
        var session = rig.Open(first, acknowledges: false);
        rig.Cut(first);
        for (var line = 1; line <= 20; line++)
            rig.Output.Write(session.Handle, "line");
        await rig.SettleAsync();

        rig.Sessions.TryResume(session.Token, second, lastReceived: 0, out _);
        var lostAtReturn = session.LostMessages;
        rig.Cut(second);
        rig.Output.Write(session.Handle, "late");
        await rig.SettleAsync();
        rig.Sessions.End(session);

        var evicted = rig.Sessions.GetStatistics().EvictedMessages;
        Assert.InRange(evicted, 1, 19);
        Assert.Equal((evicted, evicted + 1), (lostAtReturn, session.LostMessages));
    }

    [Fact]
    public async Task A_session_is_forwarded_when_its_connection_has_all_that_waited()
    {
        await using var rig = new SessionRig(buffer: new OutputBufferOptions { MaxMessageBytes = 512, MaxBufferedBytes = 8192, MaxBatchBytes = 1024 });
        var (first, second) = (rig.Connections.Open(), rig.Connections.Open());
        var session = rig.Open(first, acknowledges: false);
        rig.Cut(first);
        var before = session.IsForwarded;
        for (var line = 0; line < 40; line++)
        {
            rig.Output.Write(session.Handle, new string('x', 400));
            await rig.SettleAsync();
        }

        rig.Connections.Fails = true;
        rig.Sessions.TryResume(session.Token, second, lastReceived: 0, out _);
        var whileFull = session.IsForwarded;
        rig.Connections.Fails = false;
        await Until.TrueAsync(() =>
        {
            rig.Clock.Advance(TimeSpan.FromSeconds(1));
            return session.IsForwarded;
        });

        Assert.Equal((true, false), (before, whileFull));
        Assert.Equal(40, (await rig.ReadAsync(second)).Count);
    }

    [Fact]
    public async Task A_client_that_never_acknowledges_costs_no_more_than_the_limit_and_misses_nothing_live()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 1024 });
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);

        for (var line = 1; line <= 100; line++)
        {
            rig.Output.Write(session.Handle, "line");
            await rig.SettleAsync();
        }

        Assert.Equal(101, rig.Connections.Read(connection).Count);
        Assert.InRange(rig.Statistics.WaitingBytes, 1, 1024);
        Assert.Equal(0, rig.Statistics.LostMessages);
    }

    [Fact]
    public async Task All_sessions_together_have_a_limit()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxTotalBytes = 4096 });
        for (var client = 0; client < 50; client++)
        {
            var session = rig.OpenAway();
            for (var line = 0; line < 20; line++)
                rig.Output.Write(session.Handle, "line");
        }

        await rig.SettleAsync();

        Assert.InRange(rig.Statistics.WaitingBytes, 1, 4096);
        Assert.Equal(1000, rig.Statistics.EvictedMessages + rig.Statistics.WaitingMessages);
    }

    [Fact]
    public async Task A_message_that_only_its_number_makes_too_large_is_a_gap()
    {
        await using var rig = new SessionRig(connections: new SomeConnections { MaxMessageBytes = 200 });
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);

        rig.Output.Write(session.Handle, new string('x', 195));
        rig.Output.Write(session.Handle, "small");

        Assert.Equal([$"session {session.Token}", "gap 1 1", "2 small"], await rig.ReadAsync(connection));
        Assert.Equal(1, rig.Statistics.LostMessages);
    }

    private void Write(Session session, params ReadOnlySpan<string> lines)
    {
        foreach (var line in lines)
            _rig.Output.Write(session.Handle, line);
    }
}
