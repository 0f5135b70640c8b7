using System.Globalization;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>How long the test under load runs: 10 s, or what BATCHKIT_TEST_SECONDS says (600 each night).</summary>
internal static class TestSeconds
{
    public static int Value { get; } = int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SECONDS") ?? "10", CultureInfo.InvariantCulture);
}
