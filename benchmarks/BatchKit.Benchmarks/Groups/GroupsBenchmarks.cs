using System.Globalization;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Benchmarks.Groups;

/// <summary>What do the lines of a room cost a gateway, when each room has members on two of eight?</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: each gateway is a process, and what it gets from the broker is counted at its socket.</remarks>
internal sealed class GroupsBenchmarks : ISuiteRunner
{
    private const int Rooms = 400;
    private const int ShortRooms = 40;

    private readonly List<GroupRow> _rows = [];

    /// <summary>Why nothing of it can run here; null when it can.</summary>
    public static string? WhyUnfit => Machine.WhyUnfit ?? RabbitMqServer.WhyMissing;

    /// <summary>Only a few rooms, to see that everything works.</summary>
    public bool IsShort { get; init; }

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        if (WhyUnfit is { } reason)
            throw new InvalidOperationException(reason);
        var readings = new SuiteReadings(WriteTables);
        MeasureAsync(suite, byMembers: true, readings, ("Members", GroupWay.Group), ("Ideal", GroupWay.Ideal)).GetAwaiter().GetResult();
        MeasureAsync(suite, byMembers: false, readings, ("All", GroupWay.Group)).GetAwaiter().GetResult();
        return readings;
    }

    private async Task MeasureAsync(GateSuite suite, bool byMembers, SuiteReadings readings, params (string Name, GroupWay Way)[] ways)
    {
        Console.Error.WriteLine(byMembers ? "by members" : "to all nodes");
        await using var stage = await GroupStage.StartAsync(byMembers, IsShort ? ShortRooms : Rooms);
        for (var round = 0; round < suite.Rounds; round++)
        {
            foreach (var (name, way) in ways)
            {
                foreach (var isTick in new[] { false, true })
                    Add(readings, new GroupRow(name, isTick, await stage.SendAsync(way, isTick)));
            }
        }
    }

    private void Add(SuiteReadings readings, GroupRow row)
    {
        _rows.Add(row);
        readings.Add($"{nameof(GroupsBenchmarks)}.{row.Way}[Send={(row.IsTick ? "tick" : "room")}]",
            new GateReading { [GateMetric.Frames] = row.Sample.Frames, [GateMetric.Received] = row.Sample.Bytes, [GateMetric.Call] = row.Sample.Milliseconds });
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        foreach (var group in _rows.GroupBy(static row => row.IsTick))
        {
            var lines = $"{GroupStage.LinesOfRoom} lines of {GroupStage.LineBytes} B to a room of ten, on two of {GroupStage.Gateways} gateways, ";
            var title = lines + (group.Key ? $"{GroupStage.RoomsOfTick} rooms in one send" : "a send for each room");
            MarkdownTable.Write(writer, title, ["", "frames a gateway and room", "bytes a gateway and room", "game, ms a room"], group.GroupBy(static row => row.Way).Select(Describe));
        }
    }

    private static IEnumerable<string> Describe(IGrouping<string, GroupRow> rows) =>
        [rows.Key, Text(rows, static sample => sample.Frames), Text(rows, static sample => sample.Bytes), Text(rows, static sample => sample.Milliseconds)];

    private static string Text(IEnumerable<GroupRow> rows, Func<GroupSample, double> select) =>
        Quantile.Of([.. rows.Select(row => select(row.Sample))], 0.5).ToString("0.00", CultureInfo.InvariantCulture);
}

/// <summary>One round of one way.</summary>
internal sealed record GroupRow(string Way, bool IsTick, GroupSample Sample);
