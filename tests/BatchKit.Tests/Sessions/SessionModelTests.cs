using System.Globalization;
using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>Writes, cuts that lose what is under way, resumes, acknowledgements and limits in a random order: each client gets every message once and in order, or is told exactly which it does not get.</summary>
public sealed class SessionModelTests
{
    private const int Clients = 5;
    private const int Steps = 600;

    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    [InlineData(5)]
    [InlineData(6)]
    [InlineData(7)]
    [InlineData(8)]
    [InlineData(9)]
    [InlineData(10)]
    public async Task Every_message_arrives_once_and_in_order_or_is_told_to_be_lost(int seed)
    {
        var random = new Random(seed);
        // Odd seeds have a history that holds everything.
        await using var rig = new SessionRig(new SessionOptions { MaxHistoryBytes = seed % 2 == 1 ? 1 << 20 : 2048 });
        var players = new List<Player>();
        // The last two write more than is handed over ahead of the acknowledgements.
        var padding = new string('.', seed > 8 ? 8000 : 0);
        for (var index = 0; index < Clients; index++)
            players.Add(await Player.EnterAsync(rig));

        for (var step = 0; step < Steps; step++)
            await StepAsync(rig, random, players[random.Next(Clients)], players, padding);
        foreach (var player in players)
            await player.FinishAsync();

        foreach (var player in players)
            player.AssertComplete(mayLose: seed % 2 == 0);
        AssertSum(rig.Statistics);
    }

    private static async Task StepAsync(SessionRig rig, Random random, Player player, List<Player> players, string padding)
    {
        switch (random.Next(8))
        {
            case 0:
                player.Cut(random.Next(2) == 0);
                break;
            case 1:
                await player.ConnectAsync();
                break;
            case 2:
                player.Acknowledge();
                break;
            case 3:
                await player.ReadAsync(random.Next(10));
                break;
            case 4:
                rig.Output.Write(Hall, "hall");
                players.ForEach(one => one.Written.Add("hall"));
                break;
            case 5:
                player.Value++;
                rig.Output.WriteLatest(player.Session.Handle, key: 1, System.Text.Encoding.UTF8.GetBytes(player.Value.ToString(CultureInfo.InvariantCulture)));
                player.Written.Add(player.Value.ToString(CultureInfo.InvariantCulture));
                break;
            default:
                rig.Output.Write(player.Session.Handle, $"own{player.Written.Count}{padding}");
                player.Written.Add($"own{player.Written.Count}{padding}");
                break;
        }

        // A message behind which others wait would otherwise be superseded in the buffer, where it has no number.
        await rig.SettleAsync();
    }

    private static void AssertSum(SessionStatistics statistics) => Assert.Equal(
        statistics.NumberedMessages,
        statistics.AcknowledgedMessages + statistics.SupersededMessages + statistics.EvictedMessages + statistics.ExpiredMessages + statistics.DiscardedMessages + statistics.WaitingMessages);

    private sealed class Player(SessionRig rig)
    {
        private readonly SessionClient _client = new();
        private OutputHandle _connection;
        private long _acknowledged;

        public Session Session { get; private set; } = null!;

        public List<string> Written { get; } = [];

        public int Value { get; set; }

        public static async Task<Player> EnterAsync(SessionRig rig)
        {
            var player = new Player(rig);
            await player.ConnectAsync();
            rig.Output.Write(player.Session.Handle, ControlMessage.JoinGroup("hall"));
            await rig.SettleAsync();
            return player;
        }

        /// <summary>Connects, also while an older connection is open.</summary>
        public async Task ConnectAsync()
        {
            if (!_connection.IsNone)
                rig.Connections.Cut(_connection);
            _connection = rig.Connections.Open();
            var input = rig.Say(_connection, _client.Greet());
            Assert.NotEqual(SessionLineKind.Refused, input.Kind);
            Session = input.Session!;
            await ReadAsync(most: 2);
        }

        public void Cut(bool isTold)
        {
            if (isTold)
                rig.Cut(_connection);
            else
                rig.Connections.Cut(_connection);
        }

        public void Acknowledge()
        {
            if (rig.Connections.IsOpen(_connection) && rig.Say(_connection, $"session ack {_client.Last}").Kind == SessionLineKind.Acknowledged)
                _acknowledged = _client.Last;
        }

        public async Task ReadAsync(int most)
        {
            await rig.SettleAsync();
            foreach (var line in rig.Connections.Read(_connection, most))
            {
                Assert.False(line.StartsWith("gap ", StringComparison.Ordinal) && long.Parse(line.Split(' ')[1], CultureInfo.InvariantCulture) <= _acknowledged, line);
                if (_client.Take(line) is { } answer)
                    rig.Say(_connection, answer);
            }
        }

        public async Task FinishAsync()
        {
            await ConnectAsync();
            do
            {
                await ReadAsync(int.MaxValue);
                rig.Say(_connection, $"session ack {_client.Last}");
                await rig.SettleAsync();
            }
            while (rig.Connections.HasOutput(_connection));
        }

        public void AssertComplete(bool mayLose)
        {
            Assert.Equal(Written.Count, _client.Last);
            Assert.Equal(Written.Count, _client.Received.Count + _client.Lost.Count + _client.Skipped.Count);
            Assert.All(_client.Received, pair => Assert.Equal(Written[(int)pair.Key - 1], pair.Value));
            Assert.DoesNotContain(_client.Skipped, number => Written[(int)number - 1] == Value.ToString(CultureInfo.InvariantCulture));
            Assert.True(mayLose || _client.Lost.Count == 0);
        }
    }
}
