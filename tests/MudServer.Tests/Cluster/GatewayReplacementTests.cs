using System.Globalization;
using BatchKit.TestServers.Mud;
using MudServer.Tests.Support;

namespace MudServer.Tests.Cluster;

/// <summary>Gateways are replaced, one after another, while players play, as processes with the real RabbitMQ between them.</summary>
[Trait("Lane", "night: many clients take all cores")]
public sealed class GatewayReplacementTests(BrokerFixture fixture, ITestOutputHelper report)
{
    private const int Gateways = 3;
    private const int LinesOfRound = 20;
    private const int FewClients = 60;

    /// <summary>The environment variable with the number of telnet clients; 60 without it.</summary>
    private const string ClientsVariable = "BATCHKIT_TEST_GATEWAY_CLIENTS";

    [Fact]
    public async Task Each_player_gets_each_line_once_while_all_gateways_are_replaced()
    {
        var clients = int.TryParse(Environment.GetEnvironmentVariable(ClientsVariable), CultureInfo.InvariantCulture, out var asked) ? asked : FewClients;
        string[] arguments = ["--max-connections", "20000", "--max-connections-per-address", "20000", "--drain", $"{Math.Max(1, clients / 500)}"];
        using var cluster = new MudCluster(await fixture.GetAsync());
        var game = await cluster.StartGameAsync();
        var gateways = await Task.WhenAll(Enumerable.Range(0, Gateways).Select(_ => cluster.StartGatewayAsync(arguments)));
        using var island = new Island(clients, () => gateways[Random.Shared.Next(Gateways)].Telnet);
        await island.LoginAsync();
        report.WriteLine($"{clients} clients play.");

        var playing = island.PlayAsync();
        for (var index = 0; index < Gateways; index++)
        {
            var before = gateways[index];
            gateways[index] = await cluster.StartGatewayAsync(arguments);
            before.Terminate();
            Assert.Equal(0, await before.WaitForExitAsync());
            Assert.Matches(@"The gateway sent (\d+) of \1 clients to another one", before.Output);
            report.WriteLine($"Gateway {index + 1} is replaced.");
        }

        await island.EndAsync(playing);
        report.WriteLine($"Each of {island.AssertEachLineOnce()} lines came once.");
        var away = (await cluster.GetStatisticsAsync(game)).GetProperty("away");
        Assert.Equal((0, 0, 0), (away.GetProperty("awaySessions").GetInt32(), away.GetProperty("expiredSessions").GetInt32(), away.GetProperty("lostMessages").GetInt32()));
        Assert.True(away.GetProperty("resumedSessions").GetInt32() >= clients);
    }

    [Fact]
    public async Task A_player_comes_back_by_its_token_with_all_that_was_written_meanwhile()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        await cluster.StartGameAsync();
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync(), cluster.StartGatewayAsync());
        using var ana = await LoginAsync(gateways[0], "Ana");
        using var bob = await LoginAsync(gateways[1], "Bob");
        await ana.ReadPastAsync("Bob steps off the ferry.\r\n");

        gateways[0].Terminate();
        await ana.ReadPastAsync("  resume ");
        var token = await ana.ReadPastAsync("\r\n");
        Assert.EndsWith("Goodbye!\r\n", await ana.ReadToEndAsync(), StringComparison.Ordinal);
        await bob.AskAsync("say Still here?");
        await bob.AskAsync("@pemit Ana=only you");
        using var again = await gateways[1].ConnectAsync();
        await again.ReadToPromptAsync();
        var returned = await again.AskAsync($"resume {token}");
        await bob.AskAsync("say Good.");
        await again.ReadPastAsync("Bob says, \"Good.\"\r\n");

        Assert.Equal(["Welcome back, Ana. You are #14.", "Bob says, \"Still here?\"", "only you"], returned);
        Assert.Equal(0, await gateways[0].WaitForExitAsync());
    }

    [Fact]
    public async Task A_token_is_valid_once_and_a_name_does_as_well()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        await cluster.StartGameAsync();
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync(), cluster.StartGatewayAsync());
        using var ana = await LoginAsync(gateways[0], "Ana");
        gateways[0].Terminate();
        await ana.ReadPastAsync("  resume ");
        var token = await ana.ReadPastAsync("\r\n");
        await ana.ReadToEndAsync();
        using var again = await gateways[1].ConnectAsync();
        await again.ReadToPromptAsync();

        Assert.StartsWith("Welcome back, Ana.", (await again.AskAsync("connect Ana"))[0], StringComparison.Ordinal);
        using var other = await gateways[1].ConnectAsync();
        await other.ReadToPromptAsync();
        Assert.StartsWith("That token is not valid any more.", (await other.AskAsync($"resume {token}"))[0], StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_player_that_does_not_come_back_in_time_leaves_the_island_and_what_waited_is_counted()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        var game = await cluster.StartGameAsync("--away", "1");
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync(), cluster.StartGatewayAsync());
        using var ana = await LoginAsync(gateways[0], "Ana");
        using var bob = await LoginAsync(gateways[1], "Bob");
        await ana.ReadPastAsync("Bob steps off the ferry.\r\n");

        gateways[0].Terminate();
        await ana.ReadToEndAsync();
        await bob.SendAsync("say Anyone?\r\n");
        await bob.ReadPastAsync("Ana fades into the mist.\r\n");

        var away = (await cluster.GetStatisticsAsync(game)).GetProperty("away");
        Assert.Equal((0, 1, 1), (away.GetProperty("awaySessions").GetInt32(), away.GetProperty("expiredSessions").GetInt32(), away.GetProperty("lostMessages").GetInt32()));
    }

    private static async Task<TelnetClient> LoginAsync(MudProcess gateway, string name)
    {
        var client = await gateway.ConnectAsync();
        await client.LoginAsync(name);
        return client;
    }

    /// <summary>Players who each loop for themselves, and one whom all hear.</summary>
    private sealed class Island(int players, Func<System.Net.IPEndPoint> gateways) : IDisposable
    {
        private const int LoginsAtOnce = 50;
        private const int LoopsAtOnce = 200;

        // From the jetty to the ends of the island, so that not all of many players hear each other come.
        private static readonly string[] Walks = ["north;east", "north;west", "north;east;north", "north;north;down", "north;north;north"];

        private readonly ReturningPlayer[] _players = [.. Enumerable.Range(0, players).Select(number => new ReturningPlayer($"Player{number}", gateways))];
        private readonly ReturningPlayer _crier = new("Crier", gateways);
        private readonly int[] _rounds = new int[players];
        private readonly SemaphoreSlim _turns = new(LoopsAtOnce);
        private volatile bool _isEnding;
        private int _cries;

        public async Task LoginAsync()
        {
            await _crier.LoginAsync();
            await Parallel.ForAsync(0, players, new ParallelOptions { MaxDegreeOfParallelism = LoginsAtOnce }, async (index, _) =>
            {
                await _players[index].LoginAsync();
                if (index >= FewClients)
                    await _players[index].AskAsync($"{{{Walks[index % Walks.Length]};think there}}", static line => line == "there");
            });
        }

        public async Task PlayAsync()
        {
            var crying = CryAsync();
            await Task.WhenAll(_players.Select((player, index) => LoopAsync(player, index)).Append(crying));
        }

        /// <summary>Ends the loops, and waits until all have heard the last cry.</summary>
        public async Task EndAsync(Task playing)
        {
            _isEnding = true;
            await playing;
            await Task.WhenAll(_players.Take(FewClients).Select(player => player.WaitForAsync($"cry {_cries - 1}")));
        }

        /// <returns>How many lines came.</returns>
        public long AssertEachLineOnce()
        {
            for (var index = 0; index < players; index++)
            {
                var player = _players[index];
                var own = from round in Enumerable.Range(0, _rounds[index]) from line in Enumerable.Range(0, LinesOfRound) select $"{player.Name} {round} {line}";
                var came = Enumerable.Range(0, player.Lines.Count).Where(line => player.Lines[line].StartsWith(player.Name + " ", StringComparison.Ordinal) && char.IsAsciiDigit(player.Lines[line][^1]));
                var wrong = own.Zip(came, (expected, line) => (Expected: expected, Line: line)).FirstOrDefault(pair => player.Lines[pair.Line] != pair.Expected);
                Assert.True(wrong.Expected is null, $"{player.Name} got, instead of \"{wrong.Expected}\": {string.Join(" | ", player.Lines.Skip(wrong.Line - 10).Take(15))}");
                Assert.Equal(own.Count(), came.Count());
                Assert.Equal(
                    Enumerable.Range(0, index < FewClients ? _cries : 0).Select(cry => $"cry {cry}"), player.Lines.Where(line => line.StartsWith("cry ", StringComparison.Ordinal)));
                Assert.True(player.Returns > 0);
            }

            return ((long)_rounds.Sum() * LinesOfRound) + ((long)_cries * Math.Min(players, FewClients));
        }

        public void Dispose()
        {
            foreach (var player in _players.Append(_crier))
                player.Dispose();
            _turns.Dispose();
        }

        // Players wait their turn, and notice only then that their gateway has ended. With all at once, the answer to one would take longer than its deadline.
        private async Task LoopAsync(ReturningPlayer player, int index)
        {
            while (!_isEnding)
            {
                await _turns.WaitAsync();
                var round = _rounds[index]++;
                await player.AskAsync($"@dolist lnum({LinesOfRound})=@pemit %#={player.Name} {round} ##", line => line == $"{player.Name} {round} {LinesOfRound - 1}");
                _turns.Release();
            }
        }

        private async Task CryAsync()
        {
            while (!_isEnding)
            {
                var cry = $"cry {_cries++}";
                await _crier.AskAsync($"@emit {cry}", line => line == cry);
            }
        }
    }
}
