namespace BatchKit.Tests.Sessions;

/// <summary>Faults that no client causes on purpose, and what the counters say of them.</summary>
public sealed class SessionFaultTests : IAsyncDisposable
{
    private readonly SessionRig _rig = new();

    public ValueTask DisposeAsync() => _rig.DisposeAsync();

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
        await using var rig = new SessionRig(new BatchKit.Sessions.SessionOptions { MaxHistoryBytes = 1024 });
        var first = rig.Connections.Open();
        var session = rig.Open(first);
        rig.Cut(first);
        for (var line = 0; line < 20; line++)
            rig.Output.Write(session.Handle, "line");
        await rig.SettleAsync();

        for (var attempt = 0; attempt < 5; attempt++)
            rig.Say(rig.Connections.Open(), $"session resume {session.Token} 0");

        Assert.Equal(rig.Statistics.EvictedMessages, rig.Statistics.LostMessages);
    }
}
