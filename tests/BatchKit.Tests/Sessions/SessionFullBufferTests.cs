using System.Collections.Concurrent;
using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>What connections have to be told while the buffer has no capacity for it.</summary>
public sealed class SessionFullBufferTests : IAsyncDisposable
{
    private readonly SessionRig _rig = Narrow(new SessionOptions { MaxSessions = 2 });

    public async ValueTask DisposeAsync()
    {
        // The buffer drains by a clock that stands still.
        await EmptyAsync(_rig, () => _rig.Output.GetStatistics().PendingMessages == 0);
        await _rig.DisposeAsync();
    }

    [Fact]
    public async Task The_older_connection_is_closed_later()
    {
        var (first, second) = (_rig.Connections.Open(), _rig.Connections.Open());
        var session = _rig.Open(first);
        await _rig.SettleAsync();
        Fill(_rig);

        _rig.Say(second, $"session resume {session.Token} 0");
        var isOpenInTheMeantime = _rig.Connections.IsOpen(first);
        await EmptyAsync(_rig, () => !_rig.Connections.IsOpen(first));

        Assert.True(isOpenInTheMeantime);
        Assert.Equal(["resumed 1"], await _rig.ReadAsync(second));
    }

    [Fact]
    public async Task A_connection_that_has_the_session_again_meanwhile_stays_open()
    {
        var (first, second) = (_rig.Connections.Open(), _rig.Connections.Open());
        var session = _rig.Open(first);
        await _rig.ReadAsync(first);
        Fill(_rig);

        _rig.Say(second, $"session resume {session.Token} 0");
        _rig.Say(first, $"session resume {session.Token} 0");
        await EmptyAsync(_rig, () => !_rig.Connections.IsOpen(second));

        Assert.Equal(["resumed 1"], await _rig.ReadAsync(first));
        Assert.Equal(first, session.Connection);
    }

    [Fact]
    public async Task A_silent_client_is_closed_later()
    {
        await using var rig = Narrow(new SessionOptions { AwayTimeout = TimeSpan.FromSeconds(10) });
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);
        await rig.SettleAsync();
        Fill(rig);

        rig.Clock.Advance(TimeSpan.FromSeconds(122));
        var isOpenInTheMeantime = session.Connection.IsNone && rig.Connections.IsOpen(connection);
        await EmptyAsync(rig, () => !rig.Connections.IsOpen(connection));

        Assert.True(isOpenInTheMeantime);
    }

    [Fact]
    public async Task Who_resumes_or_opens_in_vain_is_told_later()
    {
        var (stranger, late) = (_rig.Connections.Open(), _rig.Connections.Open());
        _rig.Open(_rig.Connections.Open());
        _rig.Open(_rig.Connections.Open());
        await _rig.SettleAsync();
        Fill(_rig);

        for (var attempt = 0; attempt < 10; attempt++)
        {
            Assert.Equal(SessionLineKind.Refused, _rig.Say(stranger, "session resume 3.1.x 0").Kind);
            Assert.Equal(SessionLineKind.Refused, _rig.Say(late, "session open").Kind);
        }

        var (toldStranger, toldLate) = (new List<string>(), new List<string>());
        await EmptyAsync(_rig, () =>
        {
            toldStranger.AddRange(_rig.Connections.Read(stranger));
            toldLate.AddRange(_rig.Connections.Read(late));
            return toldStranger.Count > 0 && toldLate.Count > 0;
        });

        Assert.Equal(["expired"], toldStranger);
        Assert.Equal(["full"], toldLate);
    }

    [Fact]
    public async Task A_session_that_can_not_close_its_connection_ends_when_that_ends()
    {
        var first = _rig.Connections.Open();
        var session = _rig.Open(first);
        await _rig.SettleAsync();
        Fill(_rig);
        _rig.Output.Write(session.Handle, ControlMessage.Close);
        await _rig.Output.WhenSettledAsync(session.Handle).AsTask().WithinDeadline();
        var hasEndedBefore = session.HasEnded;

        _rig.Cut(first);

        Assert.False(hasEndedBefore);
        Assert.True(session.HasEnded);
        Assert.Equal(0, _rig.Statistics.Sessions);
    }

    [Fact]
    public async Task What_a_closing_session_gets_behind_a_control_message_is_counted_as_lost()
    {
        var session = _rig.Open(_rig.Connections.Open());
        await _rig.SettleAsync();
        Fill(_rig);
        _rig.Output.Write(session.Handle, ControlMessage.Close);
        await _rig.Output.WhenSettledAsync(session.Handle).AsTask().WithinDeadline();

        await using (_rig.Output.BeginBufferingScope(session.Handle))
        {
            _rig.Output.Write(session.Handle, ControlMessage.LeaveGroup("hall"));
            _rig.Output.Write(session.Handle, "too late");
        }

        Assert.False(session.HasEnded);
        Assert.Equal(1, session.LostMessages);
    }

    [Fact]
    public async Task What_is_acknowledged_while_it_waits_to_be_repeated_is_not_told_as_lost()
    {
        var connection = _rig.Connections.Open();
        var session = _rig.Open(connection);
        for (var number = 1; number <= 5; number++)
            _rig.Output.Write(session.Handle, $"m{number}");
        await _rig.ReadAsync(connection);
        _rig.Say(connection, "session ack 2");
        Fill(_rig);

        _rig.Say(connection, "session ack 2");
        _rig.Say(connection, "session ack 5");
        await EmptyAsync(_rig, () => _rig.Output.GetStatistics().PendingMessages == 0);
        _rig.Output.Write(session.Handle, "m6");

        Assert.Equal(["6 m6"], await _rig.ReadAsync(connection));
        Assert.Equal(0, session.LostMessages);
    }

    [Fact]
    public async Task What_waits_and_arrives_later_is_not_counted_as_dropped()
    {
        var dropped = new ConcurrentBag<OutputHandle>();
        await using var rig = Narrow(new SessionOptions { MaxSessions = 1 }, OverflowPolicy.DropNewest, messages => dropped.Add(messages.Handle));
        var (connection, late) = (rig.Connections.Open(), rig.Connections.Open());
        var session = rig.Open(connection);
        for (var number = 1; number <= 5; number++)
            rig.Output.Write(session.Handle, $"m{number}");
        await rig.ReadAsync(connection);
        rig.Say(connection, "session ack 2");
        Fill(rig);
        var refused = rig.Output.GetStatistics().RefusedMessages;

        rig.Say(connection, "session ack 2");
        rig.Say(late, "session open");
        for (var retry = 0; retry < 20; retry++)
            rig.Clock.Advance(TimeSpan.FromMilliseconds(250));
        await EmptyAsync(rig, () => session.IsForwarded && rig.Output.GetStatistics().PendingMessages == 0);

        Assert.Equal(["3 m3", "4 m4", "5 m5"], await rig.ReadAsync(connection));
        Assert.Equal(["full"], await rig.ReadAsync(late));
        Assert.Equal(refused, rig.Output.GetStatistics().RefusedMessages);
        Assert.DoesNotContain(dropped, handle => handle == connection || handle == late);
    }

    private static SessionRig Narrow(SessionOptions options, OverflowPolicy overflow = OverflowPolicy.Fail, Action<DroppedMessages>? dropped = null) =>
        new(options, new OutputBufferOptions { MaxBufferedBytes = 4096, MaxMessageBytes = 1024, MaxBatchBytes = 1024, Overflow = overflow, MessagesDropped = dropped });

    // Nothing arrives, and not one byte more is accepted for any connection.
    private static void Fill(SessionRig rig)
    {
        rig.Connections.Fails = true;
        foreach (var bytes in new[] { 200, 20, 1 })
        {
            while (rig.Output.TryWrite(rig.Connections.Open(), new string('x', bytes)))
            {
            }
        }
    }

    private static Task EmptyAsync(SessionRig rig, Func<bool> isDone)
    {
        rig.Connections.Fails = false;
        return Until.TrueAsync(() =>
        {
            rig.Clock.Advance(TimeSpan.FromMilliseconds(250));
            return isDone();
        });
    }
}
