using System.Collections.Immutable;

namespace BatchKit.Tests.Schedules;

/// <summary>Routes a schedule's handles: some take one route, some the other, some both, as groups do.</summary>
internal sealed class ScheduleRouter(Schedule schedule) : IOutputRouter
{
    public static ImmutableArray<string> Names { get; } = ["one", "other"];

    public ImmutableArray<string> GetRoutes(OutputHandle handle)
    {
        var routes = schedule.RoutesOf(Array.IndexOf(schedule.Handles, handle));
        return [.. Names.Where((_, route) => (routes & (1 << route)) != 0)];
    }
}
