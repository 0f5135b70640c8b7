using System.Text;
using BatchKit.Sessions;

namespace BatchKit.Broadcast.Tests.Sessions;

/// <summary>Real clients, whose connections are cut at random.</summary>
public sealed class SessionCutTests
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    [Fact]
    public Task Clients_that_are_cut_get_every_line_once_and_in_order() => RunAsync(clients: 50, cuts: 5);

    [Fact]
    [Trait("Lane", "night: 5,000 clients")]
    public Task Five_thousand_clients_that_are_cut_20_times_each_get_every_line_once_and_in_order() => RunAsync(clients: 5000, cuts: 20);

    private static async Task RunAsync(int clients, int cuts)
    {
        await using var server = new SessionServer();
        SessionTcpClient[] all = [.. Enumerable.Range(0, clients).Select(_ => new SessionTcpClient(() => server.Listener.EndPoint))];
        await server.Listener.StartAsync(CancellationToken.None);
        Array.ForEach(all, static client => client.Start());
        await Until.ReachedAsync(() => Task.FromResult(server.Sessions.GetStatistics().OpenedSessions), clients);
        await Until.TrueAsync(() => all.All(static client => client.Client.Token is not null));
        var sessions = all.Select(client => server.Find(client.Client.Token!)).ToArray();
        foreach (var session in sessions)
            server.Output.Write(session.Handle, ControlMessage.JoinGroup("hall"));
        await server.Output.FlushAsync().WithinDeadline();

        var rounds = await WriteAndCutAsync(server, all, sessions, cuts);

        var lines = rounds * 2L;
        await Until.TrueAsync(() => Task.FromResult(all.All(client => client.Last == lines)), () => Task.FromResult(all.Sum(static client => client.Last)));
        var statistics = server.Sessions.GetStatistics();
        foreach (var client in all)
            await client.DisposeAsync();

        Assert.All(all, client => AssertComplete(client.Client, lines));
        Assert.Equal((clients, 0, 0), (statistics.OpenedSessions, statistics.LostMessages, statistics.EvictedMessages));
        Assert.True(statistics.ResumedSessions >= clients * cuts, $"{statistics.ResumedSessions} were resumed.");
        Assert.Equal(clients * lines, statistics.NumberedMessages);
    }

    // In each round a line of the group and one of its own, and some of the clients that have come back since their last cut are cut before or behind a line.
    private static async Task<int> WriteAndCutAsync(SessionServer server, SessionTcpClient[] all, Session[] sessions, int cuts)
    {
        var random = new Random(7);
        var cutsOf = new int[all.Length];
        var rounds = 0;
        for (; cutsOf.Any(done => done < cuts); rounds++)
        {
            await server.Output.WriteAsync(Hall, $"hall{rounds + 1}\r\n");
            for (var index = 0; index < all.Length; index++)
            {
                if (cutsOf[index] < cuts && all[index].Arrivals > cutsOf[index] && random.Next(3) > 0)
                {
                    cutsOf[index]++;
                    all[index].Cut();
                }

                await server.Output.WriteAsync(sessions[index].Handle, Encoding.UTF8.GetBytes($"own{rounds + 1}\r\n"));
            }

            await Until.TrueAsync(() => Enumerable.Range(0, all.Length).Count(index => all[index].Arrivals > cutsOf[index]) > all.Length * 9 / 10);
        }

        return rounds;
    }

    // Each round has the group's line first.
    private static void AssertComplete(SessionClient client, long lines)
    {
        Assert.Equal((lines, 0, 0), (client.Received.Count, client.Lost.Count, client.Expired));
        foreach (var (number, text) in client.Received)
            Assert.Equal(number % 2 == 1 ? $"hall{(number + 1) / 2}" : $"own{number / 2}", text);
    }
}
