using System.Globalization;
using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>What a client has not acknowledged yet is bounded, so that a history is never too much for its connection.</summary>
public sealed class SessionWindowTests
{
    // Of 1,000 bytes each, with what a history needs for them.
    private const int WindowMessages = 240;

    private static readonly string Text = new('x', 1000);

    [Fact]
    public async Task A_long_history_follows_the_acknowledgements_of_its_client_and_nothing_is_lost()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 4 << 20 });
        var session = rig.OpenAway();
        await WriteAsync(rig, session, 3000);
        var connection = rig.Connections.Open();
        var client = new SessionClient();

        rig.Say(connection, $"session resume {session.Token} 0");
        var first = await rig.ReadAsync(connection);
        var most = 0;
        for (var lines = first; lines.Count > 0; lines = await rig.ReadAsync(connection))
        {
            most = Math.Max(most, lines.Count);
            foreach (var line in lines)
                client.Take(line);
            rig.Say(connection, $"session ack {client.Last}");
        }

        Assert.InRange(most, WindowMessages - 20, WindowMessages + 1);
        Assert.Equal(Enumerable.Range(1, 3000), client.Received.Keys.Select(number => (int)number));
        Assert.Equal((0, true), (session.LostMessages, session.IsForwarded));
    }

    [Fact]
    public async Task The_window_moves_on_before_all_of_it_is_acknowledged()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 4 << 20 });
        var session = rig.OpenAway();
        await WriteAsync(rig, session, 1000);
        var connection = rig.Connections.Open();
        rig.Say(connection, $"session resume {session.Token} 0");
        var before = (await rig.ReadAsync(connection)).Count;

        rig.Say(connection, "session ack 60");

        Assert.InRange(before, WindowMessages - 20, WindowMessages + 1);
        Assert.InRange((await rig.ReadAsync(connection)).Count, 40, 60);
    }

    [Fact]
    public async Task Of_values_that_change_faster_than_a_client_reads_it_gets_the_newest()
    {
        await using var rig = new SessionRig();
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);
        for (var value = 1; value <= 2000; value++)
        {
            rig.Output.WriteLatest(session.Handle, key: 1, $"{value} {Text}");
            await rig.SettleAsync();
        }

        var atFirst = (await rig.ReadAsync(connection)).Count - 1;
        rig.Say(connection, $"session ack {atFirst}");

        Assert.InRange(atFirst, 1, WindowMessages);
        Assert.Equal([$"skip {atFirst + 1} 1999", $"2000 2000 {Text}"], await rig.ReadAsync(connection));
        Assert.Equal(0, session.LostMessages);
    }

    [Fact]
    public async Task A_burst_that_is_larger_than_the_history_reaches_a_client_that_reads()
    {
        await using var rig = new SessionRig();
        var connection = rig.Connections.Open();
        var session = rig.Open(connection);
        using (rig.Output.BeginBufferingScope(session.Handle))
        {
            for (var number = 0; number < 1000; number++)
                rig.Output.Write(session.Handle, Text);
        }

        var lines = (await rig.ReadAsync(connection)).Skip(1).ToList();
        rig.Say(connection, $"session ack {lines.Count}");
        lines.AddRange(await rig.ReadAsync(connection));

        Assert.Equal(Enumerable.Range(1, 1000), lines.Select(line => int.Parse(line.Split(' ')[0], CultureInfo.InvariantCulture)));
        Assert.Equal(0, session.LostMessages);
    }

    [Fact]
    public async Task A_client_that_acknowledges_before_its_output_was_counted_gets_the_rest_at_once()
    {
        var client = new ReadingClient();
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 4 << 20 }, connections: new SomeConnections { Arrived = client.Read });
        client.Rig = rig;
        var session = rig.OpenAway();
        await WriteAsync(rig, session, 1000);

        rig.Say(rig.Connections.Open(), $"session resume {session.Token} 0");
        await rig.SettleAsync();

        Assert.Equal((1000, true), (client.Client.Last, session.IsForwarded));
    }

    [Fact]
    public async Task A_telnet_client_gets_the_newest_of_a_long_history_and_the_rest_counts_as_lost()
    {
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = 4 << 20 });
        var session = rig.OpenAway(acknowledges: false);
        await WriteAsync(rig, session, 3000);
        var connection = rig.Connections.Open();

        rig.Say(connection, $"session resume {session.Token}");
        var lines = await rig.ReadAsync(connection);

        Assert.InRange(lines.Count, WindowMessages - 20, WindowMessages);
        Assert.Equal(3000 - lines.Count, session.LostMessages);
    }

    private static async Task WriteAsync(SessionRig rig, Session session, int messages)
    {
        for (var number = 0; number < messages; number++)
            await rig.Output.WriteAsync(session.Handle, Text);
        await rig.SettleAsync();
    }

    /// <summary>Acknowledges what arrives while the server is still sending it.</summary>
    private sealed class ReadingClient
    {
        public SessionRig? Rig { get; set; }

        public SessionClient Client { get; } = new();

        public void Read(OutputHandle connection)
        {
            foreach (var line in Rig!.Connections.Read(connection))
                Client.Take(line);
            Rig.Say(connection, $"session ack {Client.Last}");
        }
    }
}
