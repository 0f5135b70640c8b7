using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>Faults that no client causes on purpose, and what the counters say of them.</summary>
public sealed class SessionFaultTests : IAsyncDisposable
{
    private readonly SessionRig _rig = new();

    public ValueTask DisposeAsync() => _rig.DisposeAsync();

    [Fact]
    public async Task A_client_that_repeats_its_acknowledgement_at_once_gets_nothing_more()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        _rig.Output.Write(session.Handle, "a");
        _rig.Output.Write(session.Handle, "b");
        await _rig.SettleAsync();
        _rig.Say(connection, "session ack 1");
        _rig.Say(connection, "session ack 1");
        await _rig.ReadAsync(connection);

        for (var line = 0; line < 100; line++)
            _rig.Say(connection, "session ack 1");
        var atOnce = await _rig.ReadAsync(connection);
        _rig.Clock.Advance(TimeSpan.FromSeconds(15));
        _rig.Say(connection, "session ack 1");

        Assert.Empty(atOnce);
        Assert.Equal(["2 b"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task A_client_that_resumes_again_at_its_connection_gets_its_history_once_in_a_while()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        _rig.Output.Write(session.Handle, "a");
        await _rig.SettleAsync();
        _rig.Say(connection, $"session resume {session.Token} 0");
        var first = await _rig.ReadAsync(connection);

        for (var line = 0; line < 100; line++)
            _rig.Say(connection, $"session resume {session.Token} 0");
        var atOnce = await _rig.ReadAsync(connection);
        _rig.Clock.Advance(TimeSpan.FromSeconds(15));
        _rig.Say(connection, $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "1 a"], first.TakeLast(2));
        Assert.Empty(atOnce);
        Assert.Equal(["resumed 1", "1 a"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task A_client_that_takes_turns_between_two_sessions_gets_their_histories_once_in_a_while()
    {
        var connection = _rig.Connections.Open();
        Session[] sessions = [_rig.OpenAway(), _rig.OpenAway()];
        foreach (var session in sessions)
            _rig.Output.Write(session.Handle, "a");
        await _rig.SettleAsync();
        var lines = new List<string>();

        for (var turn = 0; turn < 100; turn++)
        {
            _rig.Say(connection, $"session resume {sessions[turn % 2].Token} 0");
            lines.AddRange(await _rig.ReadAsync(connection));
        }

        var atOnce = lines.Count(line => line == "1 a");
        _rig.Clock.Advance(TimeSpan.FromSeconds(11));
        Assert.Equal(2 * sessions.Length, atOnce);
        Assert.Equal(["resumed 1", "1 a"], await _rig.ReadAsync(connection));
    }

    [Theory]
    [InlineData("resume TOKEN 2", "resumed 3")]
    [InlineData("ack 2", null)]
    public async Task What_a_client_asks_for_again_too_soon_comes_when_the_pause_is_over(string again, string? greeting)
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        foreach (var line in new[] { "a", "b", "c" })
            _rig.Output.Write(session.Handle, line);
        await _rig.SettleAsync();
        _rig.Say(connection, $"session resume {session.Token} 0");
        _rig.Say(connection, "session ack 2");
        await _rig.ReadAsync(connection);

        _rig.Say(connection, "session " + again.Replace("TOKEN", session.Token, StringComparison.Ordinal));
        var atOnce = await _rig.ReadAsync(connection);
        var isForwarded = session.IsForwarded;
        _rig.Clock.Advance(TimeSpan.FromSeconds(11));

        Assert.Empty(atOnce);
        Assert.False(isForwarded);
        Assert.Equal(greeting is null ? ["3 c"] : [greeting, "3 c"], await _rig.ReadAsync(connection));
        Assert.True(session.IsForwarded);
    }

    [Fact]
    public async Task What_arrives_in_the_pause_does_not_come_again()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        _rig.Output.Write(session.Handle, "a");
        _rig.Output.Write(session.Handle, "b");
        await _rig.SettleAsync();
        for (var line = 0; line < 2; line++)
            _rig.Say(connection, $"session resume {session.Token} 0");
        await _rig.ReadAsync(connection);

        _rig.Say(connection, "session ack 1");
        _rig.Clock.Advance(TimeSpan.FromSeconds(11));

        Assert.Empty(await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task What_a_client_asked_for_at_an_older_connection_does_not_come_at_the_next_one()
    {
        var (first, second) = (_rig.Connections.Open(), _rig.Connections.Open());
        var session = _rig.Open(first);
        _rig.Output.Write(session.Handle, "a");
        await _rig.SettleAsync();
        for (var line = 0; line < 2; line++)
            _rig.Say(first, $"session resume {session.Token} 0");
        _rig.Say(second, $"session resume {session.Token} 0");
        var resumed = await _rig.ReadAsync(second);

        _rig.Clock.Advance(TimeSpan.FromSeconds(11));

        Assert.Equal(["resumed 1", "1 a"], resumed);
        Assert.Empty(await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task Sessions_outlive_a_process_that_stood_still_for_longer_than_clients_may_be_away()
    {
        var (first, second) = (_rig.Connections.Open(), _rig.Connections.Open());
        var (away, here) = (_rig.Open(first), _rig.Open(second));
        await _rig.SettleAsync();
        _rig.Cut(first);
        _rig.Clock.Advance(TimeSpan.FromSeconds(30));

        _rig.Clock.Freeze(TimeSpan.FromHours(1));
        _rig.Clock.Advance(TimeSpan.FromSeconds(30));

        Assert.False(away.HasEnded);
        Assert.Equal(second, here.Connection);
        Assert.True(_rig.Connections.IsOpen(second));
        _rig.Clock.Advance(TimeSpan.FromSeconds(90));
        Assert.True(away.HasEnded);
        Assert.True(here.Connection.IsNone);
    }

    [Fact]
    public async Task A_telnet_player_that_acknowledges_changes_nothing()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection, acknowledges: false);
        foreach (var line in new[] { "a", "b", "c" })
            _rig.Output.Write(session.Handle, line);
        var lines = await _rig.ReadAsync(connection);

        for (var attempt = 0; attempt < 3; attempt++)
            _rig.Say(connection, "session ack 0");
        _rig.Output.Write(session.Handle, "d");

        Assert.Equal(["a", "b", "c"], lines);
        Assert.Equal(["d"], await _rig.ReadAsync(connection));
        Assert.Equal(0, _rig.Statistics.LostMessages);
    }

    [Fact]
    public async Task A_gap_that_is_told_again_is_lost_once()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 1024 });
        var session = rig.OpenAway();
        for (var line = 0; line < 20; line++)
            rig.Output.Write(session.Handle, "line");
        await rig.SettleAsync();

        for (var attempt = 0; attempt < 5; attempt++)
            rig.Say(rig.Connections.Open(), $"session resume {session.Token} 0");

        Assert.Equal(rig.Statistics.EvictedMessages, rig.Statistics.LostMessages);
    }

    [Fact]
    public async Task Values_that_change_often_push_out_no_chat()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 1024 });
        var session = rig.OpenAway();
        rig.Output.Write(session.Handle, "chat");
        for (var round = 1; round <= 1000; round++)
        {
            rig.Output.WriteLatest(session.Handle, key: round % 2, $"{round}");
            await rig.Output.FlushAsync(session.Handle).WithinDeadline();
        }

        var second = rig.Connections.Open();
        rig.Say(second, $"session resume {session.Token} 0");
        var lines = await rig.ReadAsync(second);
        rig.Say(second, "session ack 1001");

        Assert.Equal(["resumed 1", "1 chat", "skip 2 999", "1000 999", "1001 1000"], lines);
        Assert.Equal((998, 0, 0, 0), (rig.Statistics.SupersededMessages, rig.Statistics.EvictedMessages, rig.Statistics.WaitingMessages, rig.Statistics.WaitingBytes));
    }

    [Fact]
    public async Task Resumes_of_one_token_at_the_same_moment_leave_one_connection_with_every_line()
    {
        var session = _rig.Open(_rig.Connections.Open());
        var clients = Environment.ProcessorCount + 2;
        for (var round = 1; round <= 50; round++)
        {
            OutputHandle[] connections = [.. Enumerable.Range(0, clients).Select(_ => _rig.Connections.Open())];
            _rig.Output.Write(session.Handle, "line");

            Parallel.ForEach(connections, connection => _rig.Say(connection, $"session resume {session.Token} 0"));
            await _rig.SettleAsync();

            var last = session.Connection;
            Assert.Equal([last], connections.Where(_rig.Connections.IsOpen));
            Assert.Equal([last], connections.Where(connection => _rig.Sessions.TryGet(connection, out _)));
            Assert.Equal(["resumed 1", .. Enumerable.Range(1, round).Select(number => $"{number} line")], (await _rig.ReadAsync(last)).SkipWhile(line => line != "resumed 1"));
        }
    }

    [Fact]
    public async Task Sessions_that_take_all_the_memory_cost_the_others_nothing()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 4096, MaxTotalBytes = 16 * 1024 });
        var greedy = Enumerable.Range(0, 8).Select(_ => OpenAway(rig)).ToArray();
        var modest = Enumerable.Range(0, 8).Select(_ => OpenAway(rig)).ToArray();
        for (var round = 0; round < 100; round++)
        {
            foreach (var session in greedy)
                rig.Output.Write(session.Handle, "greedy");
        }

        await rig.SettleAsync();
        foreach (var session in modest)
            rig.Output.Write(session.Handle, "modest");
        foreach (var session in greedy)
            rig.Output.Write(session.Handle, "last");
        await rig.SettleAsync();

        Assert.InRange(rig.Statistics.WaitingBytes, 8 * 1024, 16 * 1024);
        foreach (var session in modest)
        {
            var connection = rig.Connections.Open();
            rig.Say(connection, $"session resume {session.Token} 0");
            Assert.Equal(["resumed 1", "1 modest"], await rig.ReadAsync(connection));
        }
    }

    private static Session OpenAway(SessionRig rig)
    {
        var session = rig.OpenAway();
        return session;
    }

    [Fact]
    public async Task Who_acknowledges_at_a_connection_without_a_session_is_told_so_and_resumes()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        _rig.Sessions.Suspend(connection);
        _rig.Output.Write(session.Handle, "a");

        _rig.Say(connection, "session ack 0");
        var told = await _rig.ReadAsync(connection);
        _rig.Say(connection, $"session resume {session.Token} 0");

        Assert.Equal([$"session {session.Token}", "unknown"], told);
        Assert.Equal(["resumed 1", "1 a"], await _rig.ReadAsync(connection));
    }

    [Theory]
    [InlineData("application/vnd.gmcp")]
    [InlineData("application/vnd.msdp")]
    [InlineData("application/vnd.telnet.hide-input")]
    public async Task What_only_telnet_clients_get_is_skipped_for_a_client_that_acknowledges(string contentType)
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        _rig.Output.Write(session.Handle, "a");
        _rig.Output.Write(session.Handle, "Char.Vitals {}", new MessageHeader { ContentType = contentType });
        _rig.Output.Write(session.Handle, "b", new MessageHeader { ContentType = "text/plain" });

        Assert.Equal(["1 a", "skip 2 2", "3 b"], (await _rig.ReadAsync(connection)).Skip(1));
        Assert.Equal(0, session.LostMessages);
    }

    [Fact]
    public async Task Values_that_newer_ones_replaced_are_no_losses_of_a_gap()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 1024 });
        var session = rig.OpenAway();
        for (var value = 0; value < 50; value++)
        {
            rig.Output.WriteLatest(session.Handle, key: 1, "position"u8);
            await rig.SettleAsync();
        }

        for (var line = 0; line < 8; line++)
            rig.Output.Write(session.Handle, new string('x', 100));
        await rig.SettleAsync();
        var back = rig.Connections.Open();
        rig.Say(back, $"session resume {session.Token} 0");
        await rig.SettleAsync();

        Assert.NotEqual(0, rig.Statistics.EvictedMessages);
        Assert.Equal((rig.Statistics.EvictedMessages, rig.Statistics.EvictedMessages), (rig.Statistics.LostMessages, session.LostMessages));
    }
}
