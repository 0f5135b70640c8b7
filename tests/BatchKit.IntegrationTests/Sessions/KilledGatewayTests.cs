using System.Diagnostics;
using System.Globalization;
using System.Text;
using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.IntegrationTests.Stops;
using BatchKit.Sessions;
using BatchKit.TestServers.HostWorker;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Sessions;

/// <summary>One of three gateways is killed under its clients, which take their sessions up at the others.</summary>
public sealed class KilledGatewayTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    private const int Game = 1;
    private const int Clients = 5000;
    private const int Rounds = 60;
    private const int KillAfter = 20;

    // 20,000 lines a second for all of them.
    private static readonly TimeSpan Round = TimeSpan.FromMilliseconds(250);

    [Theory]
    [Trait("Lane", "night: three processes and 5,000 clients")]
    [InlineData(BrokerPath.RabbitMq)]
    [InlineData(BrokerPath.Nats)]
    public Task Every_client_of_a_killed_gateway_gets_every_line_once_and_in_order_elsewhere(string transport) =>
        new SharedBrokers(rabbitMq, mosquitto, nats, postgres).UseAsync(transport, RunAsync);

    private static async Task RunAsync(BrokerPath path)
    {
        var game = await StartGameAsync(path);
        var (output, sessions) = (game.Services.GetRequiredService<OutputBuffer>(), game.Services.GetRequiredService<SessionTransport>());
        using var first = await GatewayProcess.StartAsync(new GatewaySettings(path, Node: 11, Game));
        using var second = await GatewayProcess.StartAsync(new GatewaySettings(path, Node: 12, Game));
        using var third = await GatewayProcess.StartAsync(new GatewaySettings(path, Node: 13, Game));
        SessionTcpClient[] clients = [.. Enumerable.Range(0, Clients).Select(index => Client(index, [first, second, third]))];
        Array.ForEach(clients, static client => client.Start());
        await Until.TrueAsync(() => Task.FromResult(clients.All(static client => client.Arrivals > 0)), () => Task.FromResult(sessions.GetStatistics().OpenedSessions));
        var handles = Array.ConvertAll(clients, static client => HandleOf(client.Client.Token!));
        var atFirst = clients.Count(client => client.Gateway!.Equals(first.EndPoint));

        var resumed = Task.FromResult(TimeSpan.Zero);
        using var timer = new PeriodicTimer(Round);
        for (var round = 1; round <= Rounds; round++)
        {
            await timer.WaitForNextTickAsync(TestContext.Current.CancellationToken);
            if (round == KillAfter)
                resumed = KillAsync(first, sessions, atFirst);
            using (output.BeginBufferingScope())
            {
                foreach (var handle in handles)
                    await output.WriteAsync(handle, Encoding.UTF8.GetBytes($"line{round}\r\n"));
            }
        }

        var written = Stopwatch.GetTimestamp();
        await Until.TrueAsync(() => Task.FromResult(clients.All(static client => client.Last == Rounds)), () => Task.FromResult(clients.Sum(static client => client.Last)));
        TestContext.Current.TestOutputHelper?.WriteLine($"{path.Transport}: all {atFirst} had resumed {(await resumed).TotalMilliseconds:0} ms after the kill, and everyone had everything {Stopwatch.GetElapsedTime(written).TotalMilliseconds:0} ms after the last line.");
        var statistics = sessions.GetStatistics();
        foreach (var client in clients)
            await client.DisposeAsync();
        await PathHost.StopAsync(game);

        Assert.InRange(atFirst, Clients / 4, Clients / 2);
        Assert.All(clients, static client => Assert.Equal((Rounds, 0, 0), (client.Client.Received.Count, client.Client.Lost.Count, client.Client.Expired)));
        Assert.All(clients, static client => Assert.All(client.Client.Received, static pair => Assert.Equal($"line{pair.Key}", pair.Value)));
        Assert.Equal((Clients, 0, 0, 0), (statistics.OpenedSessions, statistics.LostMessages, statistics.EvictedMessages, statistics.ExpiredSessions));
        Assert.True(statistics.ResumedSessions >= atFirst, $"{statistics.ResumedSessions} of {atFirst} were resumed.");
        Assert.InRange(statistics.WaitingBytes, 0, 256 * 1024 * 1024);
    }

    /// <returns>How long it took until all of its clients had taken their sessions up elsewhere.</returns>
    private static async Task<TimeSpan> KillAsync(GatewayProcess gateway, SessionTransport sessions, int clients)
    {
        var killed = Stopwatch.GetTimestamp();
        gateway.Kill();
        await Until.TrueAsync(() => Task.FromResult(sessions.GetStatistics().ResumedSessions >= clients), () => Task.FromResult(sessions.GetStatistics().ResumedSessions));
        return Stopwatch.GetElapsedTime(killed);
    }

    private static async Task<IHost> StartGameAsync(BrokerPath path)
    {
        SessionTransport? sessions = null;
        var host = PathHost.Build(services => services.AddBatchKit(options => options.Node = Game)
            .SendTo(path, Game).UseSessions().ReceiveFrom(path, Game, _ => new GameInput(() => sessions!)));
        sessions = host.Services.GetRequiredService<SessionTransport>();
        await PathHost.StartAsync(host);
        return host;
    }

    // Each begins at its own gateway, and tries the next when that is gone.
    private static SessionTcpClient Client(int index, GatewayProcess[] gateways)
    {
        var endPoints = Array.ConvertAll(gateways, static gateway => gateway.EndPoint);
        var attempt = index;
        return new SessionTcpClient(() => endPoints[attempt++ % endPoints.Length]);
    }

    private static OutputHandle HandleOf(string token) => OutputHandle.Connection(Game, long.Parse(token.Split('.')[1], CultureInfo.InvariantCulture));
}
