using System.Diagnostics;
using System.Globalization;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.EdgeLoad;
using BatchKit.Benchmarks.Measuring;
using BatchKit.TestServers.Mud;

namespace BatchKit.Benchmarks.Edge;

/// <summary>Some hostile clients of the MUD. The MUD and the hostile clients are new processes each time; the honest player is in this one, which does nothing else.</summary>
/// <param name="name">What the row is called.</param>
/// <param name="transport">The MUD's transport.</param>
/// <param name="clients">How many hostile clients there are of each kind.</param>
/// <param name="idle">How long the idle server is measured.</param>
/// <param name="attack">How long the attack lasts.</param>
/// <param name="recovery">How long the server has to itself when the hostile clients have left.</param>
internal sealed class HostileRow(string name, string transport, int[] clients, TimeSpan idle, TimeSpan attack, TimeSpan recovery)
{
    private const double Megabyte = 1024 * 1024;
    private const double Kilobyte = 1024;

    public List<HostileSample> Samples { get; } = [];

    public HostileSample Measure()
    {
        using var mud = MudProcess.StartAsync("--port", "0", "--transport", transport).GetAwaiter().GetResult();
        using var player = new HonestPlayer(mud.Telnet);
        var memory = new ResidentMemory(mud.Id);

        // Idle is a server that has met such clients before: its code is compiled.
        Attack(mud, player, memory, clients, idle);
        player.Play(recovery, memory.Sample);
        var before = Play(player, memory, idle);
        var (lines, processor) = (LinesOf(mud.Output), ProcessorSeconds(mud.Id));
        var (during, sent) = Attack(mud, player, memory, clients, attack);
        var (newLines, used) = (LinesOf(mud.Output) - lines, ProcessorSeconds(mud.Id) - processor);
        player.Play(recovery, memory.Sample);
        var sample = new HostileSample(before, during, Play(player, memory, idle), sent, used / attack.TotalSeconds, newLines);
        Samples.Add(sample);
        return sample;
    }

    /// <summary>The row's cells in the table of attacks.</summary>
    public IEnumerable<string> Describe()
    {
        yield return name;
        yield return $"{clients.Sum()}";
        yield return $"{Median(sample => sample.Sum(0)):0}";
        yield return $"{Median(sample => sample.Sum(1)) / Kilobyte / attack.TotalSeconds:0}";
        yield return $"{Median(sample => sample.Sum(2)) / Kilobyte / attack.TotalSeconds:0}";
        yield return $"{100 * Median(sample => sample.Processors):0}";
        yield return $"{Median(sample => sample.During.ResidentBytes) / Megabyte:0}";
        yield return $"{Median(sample => sample.During.ResidentBytes / sample.Before.ResidentBytes):0.00}x";
        yield return $"{Samples.Max(sample => sample.LogLines)}";
        yield return $"{Median(sample => sample.During.Honest.Median):0.00}";
        yield return $"{Median(sample => sample.During.Honest.NinetyNine):0.0}";
        yield return $"{Samples.Max(sample => sample.During.Honest.Longest):0.0}";
    }

    /// <summary>Rows for the time before, during and after.</summary>
    public IEnumerable<IEnumerable<string>> DescribeHonest()
    {
        yield return Describe("idle", sample => sample.Before);
        yield return Describe("under attack, the memory at its highest", sample => sample.During);
        yield return Describe(string.Create(CultureInfo.InvariantCulture, $"{recovery.TotalSeconds} s after they left"), sample => sample.After);
    }

    private static int LinesOf(string output) => output.Count(letter => letter == '\n');

    private static double ProcessorSeconds(int id)
    {
        using var process = Process.GetProcessById(id);
        return process.TotalProcessorTime.TotalSeconds;
    }

    private static HostilePhase Play(HonestPlayer player, ResidentMemory memory, TimeSpan duration)
    {
        memory.Clear();
        var times = player.Play(duration, memory.Sample);
        return new HostilePhase(times, memory.Highest);
    }

    private static (HostilePhase Phase, long[] Sent) Attack(MudProcess mud, HonestPlayer player, ResidentMemory memory, int[] counts, TimeSpan duration)
    {
        using var attackers = ChildProcess.Start("attack");
        attackers.Ask($"start {mud.Telnet.Port} {mud.Page.Port} {string.Join(' ', counts)}");
        var phase = Play(player, memory, duration);
        return (phase, attackers.Ask("stop"));
    }

    private string[] Describe(string when, Func<HostileSample, HostilePhase> phase) =>
    [
        when,
        $"{Median(sample => phase(sample).Honest.Median):0.00}",
        $"{Median(sample => phase(sample).Honest.NinetyNine):0.0}",
        $"{Samples.Max(sample => phase(sample).Honest.Longest):0.0}",
        $"{Median(sample => phase(sample).ResidentBytes) / Megabyte:0}",
        $"{Median(sample => phase(sample).ResidentBytes / sample.Before.ResidentBytes):0.00}x",
    ];

    private double Median(Func<HostileSample, double> figure) => Quantile.Of(Samples.Select(figure), 0.5);
}

/// <summary>What was measured before, under and after one attack.</summary>
/// <param name="Before">The idle server.</param>
/// <param name="During">The server under attack.</param>
/// <param name="After">The server after its recovery.</param>
/// <param name="Sent">For each kind: its connections, the bytes that it sent and those that it read.</param>
/// <param name="Processors">How many processors the server used under attack.</param>
/// <param name="LogLines">How many lines it logged.</param>
internal sealed record HostileSample(HostilePhase Before, HostilePhase During, HostilePhase After, long[] Sent, double Processors, int LogLines)
{
    private const int FiguresOfKind = 3;

    /// <summary>A figure's sum over all kinds.</summary>
    public double Sum(int figure) => Sent.Where((_, index) => index % FiguresOfKind == figure).Sum();
}

/// <summary>How the honest player fared for a while, and the most memory that the server had.</summary>
internal readonly record struct HostilePhase(HonestTimes Honest, double ResidentBytes);

/// <summary>The resident memory of a process, sampled.</summary>
internal sealed class ResidentMemory(int id)
{
    public double Highest { get; private set; }

    public void Clear() => Highest = 0;

    public void Sample()
    {
        var line = File.ReadLines($"/proc/{id}/status").First(line => line.StartsWith("VmRSS:", StringComparison.Ordinal));
        Highest = Math.Max(Highest, 1024.0 * long.Parse(line.Split(' ', StringSplitOptions.RemoveEmptyEntries)[1], CultureInfo.InvariantCulture));
    }
}
