using System.Globalization;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mosquitto;

/// <summary>One broker's folder: its configuration, data and ports, and how it is started there.</summary>
internal sealed class MosquittoFolder
{
    private static readonly Dictionary<string, string> NoEnvironment = [];

    private readonly string _program;
    private readonly string _path;

    private MosquittoFolder(string program, string path, int[] ports)
    {
        _program = program;
        _path = path;
        Port = ports[0];
        WebSocketPort = ports[1];
        TlsPort = ports[2];
        SecureWebSocketPort = ports[3];
    }

    public int Port { get; }

    public int WebSocketPort { get; }

    public int TlsPort { get; }

    public int SecureWebSocketPort { get; }

    private string ConfigurationFile => Path.Combine(_path, "mosquitto.conf");

    public static string? FindProgram() => InstalledProgram.Find("mosquitto");

    public static MosquittoFolder Create(MosquittoServerOptions options)
    {
        var program = FindProgram() ?? throw new ServerStartException("Mosquitto is not installed.");
        var path = Directory.CreateTempSubdirectory("batchkit-mosquitto-").FullName;
        var folder = new MosquittoFolder(program, path, FreePort.Take(4));
        File.WriteAllLines(folder.ConfigurationFile, [.. folder.GeneralLines(options), .. folder.ListenerLines(options)]);
        return folder;
    }

    public ServerProcess Start() => ServerProcess.Start(_program, ["-c", ConfigurationFile], NoEnvironment);

    public void Delete()
    {
        if (Directory.Exists(_path))
            Directory.Delete(_path, recursive: true);
    }

    public string WriteAccess(IReadOnlyList<string> lines) => Write("access", string.Join('\n', [.. lines, ""]));

    /// <summary>Writes what <c>mosquitto_passwd</c> would: PBKDF2 with SHA-512, marked 7.</summary>
    public string WritePassword(string userName, string password)
    {
        const int Rounds = 101;
        var salt = RandomNumberGenerator.GetBytes(12);
        var hash = Rfc2898DeriveBytes.Pbkdf2(Encoding.UTF8.GetBytes(password), salt, Rounds, HashAlgorithmName.SHA512, outputLength: 64);
        return Write("passwords", $"{userName}:$7${Text(Rounds)}${Convert.ToBase64String(salt)}${Convert.ToBase64String(hash)}\n");
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);

    private IEnumerable<string> GeneralLines(MosquittoServerOptions options)
    {
        // Started by root it would become the user mosquitto, who may not write to this folder.
        if (Environment.IsPrivilegedProcess)
            yield return "user root";
        yield return "log_dest stderr";
        yield return $"persistence {(options.Persistence ? "true" : "false")}";
        yield return $"persistence_location {_path}/";
        yield return $"allow_anonymous {(options.UserName is null ? "true" : "false")}";
        if (options.UserName is { } userName)
            yield return $"password_file {WritePassword(userName, options.Password)}";
        if (options.Access is { } access)
            yield return $"acl_file {WriteAccess(access)}";
        if (options.NoDelay)
            yield return "set_tcp_nodelay true";
        if (options.MaxInflight is { } maxInflight)
            yield return $"max_inflight_messages {Text(maxInflight)}";
        if (options.MaxQueued is { } maxQueued)
            yield return $"max_queued_messages {Text(maxQueued)}";
        foreach (var line in options.Lines)
            yield return line;
    }

    private IEnumerable<string> ListenerLines(MosquittoServerOptions options)
    {
        yield return $"listener {Text(Port)} 127.0.0.1";
        yield return $"listener {Text(WebSocketPort)} 127.0.0.1";
        yield return "protocol websockets";
        if (options.Certificate is not { } certificate)
            yield break;
        string[] identity =
        [
            $"certfile {Write("certificate.pem", certificate.ExportCertificatePem())}",
            $"keyfile {Write("key.pem", ExportKey(certificate))}",
        ];
        yield return $"listener {Text(SecureWebSocketPort)} 127.0.0.1";
        yield return "protocol websockets";
        foreach (var line in identity)
            yield return line;
        yield return $"listener {Text(TlsPort)} 127.0.0.1";
        foreach (var line in identity)
            yield return line;
        if (options.ClientAuthority is not { } authority)
            yield break;
        yield return $"cafile {Write("authority.pem", authority.ExportCertificatePem())}";
        yield return "require_certificate true";
    }

    private static string ExportKey(X509Certificate2 certificate)
    {
        using var key = certificate.GetRSAPrivateKey() ?? throw new ArgumentException("The certificate has no RSA private key.", nameof(certificate));
        return key.ExportPkcs8PrivateKeyPem();
    }

    private string Write(string name, string text)
    {
        var file = Path.Combine(_path, name);
        File.WriteAllText(file, text);
        return file;
    }
}
