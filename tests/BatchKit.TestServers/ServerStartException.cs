namespace BatchKit.TestServers;

/// <summary>An installed server did not start: the message has its last output.</summary>
public sealed class ServerStartException(string message, Exception? cause = null) : Exception(message, cause);
