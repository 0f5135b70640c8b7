using System.Globalization;

namespace BatchKit.Benchmarks.Configuration;

/// <summary>What <c>run</c> was told in place of a suite's own figures. It is in the environment, so that each process of a suite inherits it and both ends have the same messages.</summary>
internal static class RunSettings
{
    private const string SizeVariable = "BATCHKIT_BENCH_SIZE";
    private const string CountVariable = "BATCHKIT_BENCH_COUNT";
    private const string ClientsVariable = "BATCHKIT_BENCH_CLIENTS";
    private const string AuthorityVariable = "BATCHKIT_BENCH_AUTHORITY";
    private const string ServerVariable = "BATCHKIT_BENCH_SERVER";

    /// <summary>Bytes of a message.</summary>
    public static int? Size => NumberOf(SizeVariable);

    /// <summary>Messages of one measurement.</summary>
    public static int? Count => NumberOf(CountVariable);

    /// <summary>The MQTT broker.</summary>
    public static Uri? Server => Environment.GetEnvironmentVariable(ServerVariable) is { Length: > 0 } address ? new Uri(address) : null;

    /// <summary>The file with the authority of its certificate; null for the system's.</summary>
    public static string? AuthorityFile => Environment.GetEnvironmentVariable(AuthorityVariable) is { Length: > 0 } file ? file : null;

    /// <summary>Clients that publish side by side.</summary>
    public static int? Clients => NumberOf(ClientsVariable);

    /// <summary>Call it before anything of a suite is used.</summary>
    public static void Set(int size, int count, int clients = 1, Uri? server = null, string? authorityFile = null)
    {
        Environment.SetEnvironmentVariable(SizeVariable, size.ToString(CultureInfo.InvariantCulture));
        Environment.SetEnvironmentVariable(CountVariable, count.ToString(CultureInfo.InvariantCulture));
        Environment.SetEnvironmentVariable(ClientsVariable, clients.ToString(CultureInfo.InvariantCulture));
        Environment.SetEnvironmentVariable(ServerVariable, server?.AbsoluteUri);
        Environment.SetEnvironmentVariable(AuthorityVariable, authorityFile);
    }

    private static int? NumberOf(string variable) => Environment.GetEnvironmentVariable(variable) is { Length: > 0 } text ? int.Parse(text, CultureInfo.InvariantCulture) : null;
}
