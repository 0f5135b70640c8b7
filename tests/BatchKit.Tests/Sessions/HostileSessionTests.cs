using System.Collections.Immutable;
using System.Globalization;
using System.Text;
using BatchKit.Sessions;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Sessions;

/// <summary>Attackers, and neighbours that break.</summary>
public sealed class HostileSessionTests : IAsyncDisposable
{
    private readonly SessionRig _rig = new();

    public ValueTask DisposeAsync() => _rig.DisposeAsync();

    [Fact]
    public async Task A_guessed_token_is_refused_and_its_session_left_as_it_is()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        var attacker = _rig.Connections.Open();
        var parts = session.Token.Split('.');
        string[] guesses =
        [
            "", "x", "..", $"{parts[0]}.{parts[1]}.", $"{parts[0]}.{parts[1]}.{new string('A', parts[2].Length)}", $"{parts[0]}.{parts[1]}.{parts[2][..^1]}", $"{session.Token}A", $"4.{parts[1]}.{parts[2]}",
            $"{parts[0]}.{long.Parse(parts[1], CultureInfo.InvariantCulture) + 1}.{parts[2]}", "99999999.1.x", "3.0.x", "-3.1.x", new string('9', 5000), "3.99999999999999999999.x", "\0\0.\0.\0",
        ];

        foreach (var guess in guesses)
            Assert.Equal(SessionLineKind.Refused, _rig.Say(attacker, $"session resume {guess} 0").Kind);

        Assert.Equal(connection, session.Connection);
        Assert.All(await _rig.ReadAsync(attacker), line => Assert.Equal("expired", line));
        Assert.Equal(guesses.Length, _rig.Statistics.RefusedLines);
        Assert.False(_rig.Sessions.TryResume(new string('x', 100_000), attacker, 0, out _));
    }

    [Fact]
    public void Tokens_have_192_random_bits_and_never_repeat()
    {
        var tokens = Enumerable.Range(0, 1000).Select(_ => _rig.Open(_rig.Connections.Open()).Token).ToArray();

        Assert.Equal(1000, tokens.Select(token => token.Split('.')[2]).Distinct().Count());
        Assert.All(tokens, token => Assert.Equal(24 * 8 / 6, token.Split('.')[2].Length));
        Assert.All(tokens, token => Assert.True(SessionTransport.TryReadNode(Encoding.UTF8.GetBytes($"session resume {token} 5"), out var node) && node == 3));
    }

    [Fact]
    public async Task Of_two_connections_with_one_token_the_later_has_the_session_and_the_other_is_closed()
    {
        var first = _rig.Connections.Open();
        var session = _rig.Open(first);
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");
        var late = _rig.Say(first, "session ack 0");
        _rig.Output.Write(session.Handle, "hello");
        await _rig.SettleAsync();

        Assert.Equal(SessionLineKind.Refused, late.Kind);
        Assert.False(_rig.Connections.IsOpen(first));
        Assert.False(_rig.Sessions.Suspend(first));
        Assert.Equal(second, session.Connection);
        Assert.Equal(["resumed 1", "1 hello"], _rig.Connections.Read(second));
    }

    [Theory]
    [InlineData("session ack 4")]
    [InlineData("session ack 9223372036854775807")]
    [InlineData("session ack 99999999999999999999999")]
    [InlineData("session ack -1")]
    [InlineData("session ack x")]
    [InlineData("session ack 1 2")]
    [InlineData("session ack +1")]
    public async Task An_acknowledgement_of_what_was_never_sent_changes_nothing(string line)
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        await WriteAsync(session, "a", "b", "c");

        Assert.Equal(SessionLineKind.Refused, _rig.Say(connection, line).Kind);

        Assert.Equal((3, 0), (_rig.Statistics.WaitingMessages, _rig.Statistics.AcknowledgedMessages));
    }

    [Fact]
    public async Task An_acknowledgement_that_goes_back_brings_nothing_back()
    {
        var connection = _rig.Connections.Open();
        await WriteAsync(_rig.Open(connection), "a", "b", "c");

        _rig.Say(connection, "session ack 2");
        _rig.Say(connection, "session ack 1");
        _rig.Say(connection, "session ack 0");

        Assert.Equal((1, 2), (_rig.Statistics.WaitingMessages, _rig.Statistics.AcknowledgedMessages));
    }

    [Theory]
    [InlineData("3")]
    [InlineData("9223372036854775807")]
    [InlineData("-1")]
    [InlineData("1e3")]
    [InlineData("1 2")]
    public async Task A_resume_from_a_number_that_was_never_sent_is_refused_and_the_session_stays_where_it_is(string last)
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        await WriteAsync(session, "a", "b");
        var second = _rig.Connections.Open();

        Assert.Equal(SessionLineKind.Refused, _rig.Say(second, $"session resume {session.Token} {last}").Kind);

        Assert.Equal(connection, session.Connection);
        Assert.Equal(2, _rig.Statistics.WaitingMessages);
    }

    [Theory]
    [InlineData("session")]
    [InlineData("session ")]
    [InlineData("session opens")]
    [InlineData("session resume")]
    [InlineData("Session open")]
    [InlineData(" session open")]
    [InlineData("say session open")]
    [InlineData("")]
    [InlineData("\r\n")]
    public void A_line_that_only_resembles_is_the_applications(string line)
    {
        Assert.Equal(new SessionInput(SessionLineKind.None, null), _rig.Say(_rig.Connections.Open(), line));
        Assert.Equal((0, 0), (_rig.Statistics.OpenedSessions, _rig.Statistics.RefusedLines));
    }

    [Fact]
    public async Task A_flood_of_opens_ends_at_the_limit_and_leaves_those_that_wait()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxSessions = 10 });
        var session = rig.OpenAway();
        rig.Output.Write(session.Handle, "kept");
        await rig.SettleAsync();
        OutputHandle[] attackers = [.. Enumerable.Range(0, 1000).Select(_ => rig.Connections.Open())];

        foreach (var attacker in attackers)
            rig.Say(attacker, "session open");

        Assert.Equal((10, 991), (rig.Statistics.Sessions, rig.Statistics.RefusedLines));
        Assert.Contains("full", await rig.ReadAsync(attackers[^1]));
        var back = rig.Connections.Open();
        rig.Say(back, $"session resume {session.Token} 0");
        Assert.Equal(["resumed 1", "1 kept"], await rig.ReadAsync(back));
        Array.ForEach(attackers, rig.Cut);
        rig.Clock.Advance(TimeSpan.FromMinutes(4));
        Assert.InRange(rig.Statistics.Sessions, 0, 1);
    }

    [Fact]
    public async Task A_flood_of_opens_at_one_connection_keeps_the_last_session()
    {
        var attacker = _rig.Connections.Open();
        var session = default(Session);

        for (var attempt = 0; attempt < 1000; attempt++)
            session = _rig.Say(attacker, "session open").Session;

        Assert.Equal((1, 1000, 0), (_rig.Statistics.Sessions, _rig.Statistics.OpenedSessions, _rig.Statistics.AwaySessions));
        Assert.Equal(attacker, session!.Connection);
        await WriteAsync(session, "a");
        Assert.Equal("1 a", (await _rig.ReadAsync(attacker))[^1]);
    }

    [Fact]
    public async Task A_flood_of_resumes_keeps_one_connection_and_no_memory()
    {
        var session = _rig.Open(_rig.Connections.Open());
        await WriteAsync(session, "a");
        var last = default(OutputHandle);

        for (var attempt = 0; attempt < 500; attempt++)
            _rig.Say(last = _rig.Connections.Open(), $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "1 a"], await _rig.ReadAsync(last));
        Assert.Equal((1, 1), (_rig.Statistics.Sessions, _rig.Statistics.WaitingMessages));
        Assert.False(_rig.Sessions.TryGet(OutputHandle.Connection(7, 2), out _));
    }

    [Fact]
    public async Task A_connection_that_ends_before_the_first_write_loses_nothing()
    {
        var session = _rig.OpenAway();
        await WriteAsync(session, "first");
        var second = _rig.Connections.Open();

        _rig.Say(second, $"session resume {session.Token} 0");

        Assert.Equal(["resumed 1", "1 first"], await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task What_finds_the_buffer_full_is_forwarded_when_it_has_capacity_again()
    {
        await using var rig = new SessionRig(buffer: new OutputBufferOptions { MaxBufferedBytes = 4096, MaxMessageBytes = 1024, MaxBatchBytes = 1024, Overflow = OverflowPolicy.Fail });
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);
        await rig.SettleAsync();
        rig.Connections.Fails = true;
        for (var line = 0; line < 60; line++)
            rig.Output.Write(session.Handle, new string('x', 100));
        await rig.Output.WhenSettledAsync(session.Handle).AsTask().WithinDeadline();
        var waiting = rig.Statistics.WaitingMessages;

        rig.Connections.Fails = false;
        var lines = new List<string>();
        await Until.TrueAsync(() =>
        {
            rig.Clock.Advance(TimeSpan.FromMilliseconds(250));
            lines.AddRange(rig.Connections.Read(connection));
            return lines.Count > 60;
        });

        Assert.Equal(60, waiting);
        Assert.Equal(Enumerable.Range(1, 60), lines.Skip(1).Select(line => int.Parse(line.Split(' ')[0], CultureInfo.InvariantCulture)));
    }

    [Fact]
    public async Task A_router_that_throws_for_the_connection_loses_nothing_though_the_logger_throws_too()
    {
        var router = new BlockingRouter();
        var loggers = ThrowingLoggers.At("always");
        await using var rig = new SessionRig(router: router, logger: new Logger<SessionTransport>(loggers));
        var first = rig.Connections.Open();
        router.Refuses = true;
        var session = rig.Open(first);
        rig.Output.Write(session.Handle, "hello");
        await rig.SettleAsync();
        var failures = rig.Statistics.FailedForwards;

        router.Refuses = false;
        rig.Clock.Advance(TimeSpan.FromMilliseconds(250));

        Assert.NotEqual(0, failures);
        Assert.NotEqual(0, loggers.Thrown);
        Assert.Equal([$"session {session.Token}", "1 hello"], await rig.ReadAsync(first));
        Assert.Equal(0, rig.Output.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task A_router_that_blocks_for_one_connection_holds_up_no_other_session_and_no_end()
    {
        var router = new BlockingRouter { Refuses = true };
        await using var rig = new SessionRig(router: router);
        OutputHandle[] connections = [rig.Connections.Open(), rig.Connections.Open()];
        foreach (var connection in connections)
            rig.Output.Write(rig.Open(connection, acknowledges: false).Handle, "hello");
        await rig.SettleAsync();
        rig.OpenAway();
        (router.Refuses, router.Blocked) = (false, connections[0]);

        var blocked = Task.Run(() => rig.Clock.Advance(TimeSpan.FromMilliseconds(250)), TestContext.Current.CancellationToken);
        await router.Blocks.Task.WithinDeadline();
        // One tick sees that the first has not gone on, and the next helps.
        for (var tick = 0; tick < 3; tick++)
            rig.Clock.Advance(TimeSpan.FromMilliseconds(250));
        var second = rig.Connections.Read(connections[1]);
        rig.Clock.Advance(TimeSpan.FromMinutes(2.5));
        var expired = rig.Statistics.ExpiredSessions;
        router.Unblock.Set();
        await blocked.WithinDeadline();

        Assert.Equal(["hello"], second);
        Assert.Equal(1, expired);
        Assert.Equal(["hello"], await rig.ReadAsync(connections[0]));
    }

    [Fact]
    public async Task A_huge_line_costs_nothing_and_is_the_applications()
    {
        var connection = _rig.Connections.Open();

        Assert.Equal(SessionLineKind.None, _rig.Say(connection, new string('x', 1_000_000)).Kind);
        Assert.Equal(SessionLineKind.Refused, _rig.Say(connection, "session resume " + new string('x', 1_000_000)).Kind);
        Assert.Equal(["expired"], await _rig.ReadAsync(connection));
    }

    [Fact]
    public async Task After_its_disposal_nothing_opens_and_the_timer_is_gone()
    {
        await _rig.Sessions.DisposeAsync();

        Assert.Throws<ObjectDisposedException>(() => _rig.Say(_rig.Connections.Open(), "session open"));
        await _rig.Output.DisposeAsync();
        Assert.Equal(0, _rig.Clock.ArmedTimers);
    }

    private async Task WriteAsync(Session session, params string[] lines)
    {
        foreach (var line in lines)
            _rig.Output.Write(session.Handle, line);
        await _rig.SettleAsync();
    }
}
